// Safetensors files as bytes: names, types, shapes and where the data lies; read checked, written atomically.
// Not for: models and tensors (see state_dict.h and checkpoint.h, which stand on this).
//
// The format (https://github.com/huggingface/safetensors): 8 bytes little-endian header length n, n bytes of JSON
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
// and then the data, to which the offsets refer; the ranges must tile it without gap or overlap. A file is never
// trusted: whatever its bytes are, reading gives its content or an Error, and allocates in proportion to its true size.
#pragma once

#include <capstan/autograd/dtype.h>
#include <capstan/autograd/shape.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::nn {

/// Element types that can be read: the four of capstan, and two that are converted to i32.
enum class SafetensorsType : std::uint8_t { f32, f64, i32, boolean, i64, u8 };

/// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType stored = SafetensorsType::f32;
  DType dtype = DType::f32;  ///< what read() gives: i32 for I64 and U8
  Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< the stored bytes, counted from the start of the data
  /// Bytes that read() fills: elements · size_of(dtype).
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements() * size_of(dtype)); }
};

/// An open file whose header has been checked. Moves, does not copy.
class SafetensorsFile {
 public:
  /// Error (one sentence that names the file) if it cannot be read or breaks the format anywhere.
  static SafetensorsFile open(const std::string& path);

  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  /// All tensors, sorted by name.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Null if there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

  /// Fills `out`, row-major elements of entry.dtype; out.size() must be entry.bytes(). Error if an I64 value does not fit
  /// into i32, if a BOOL is neither 0 nor 1, or if the file got shorter meanwhile.
  void read(const SafetensorsEntry& entry, std::span<std::byte> out) const;

 private:
  SafetensorsFile() = default;
  void read_at(std::uint64_t position, std::span<std::byte> out) const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t data_start_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to be written: row-major elements, elements · size_of(dtype) bytes.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> data;
};

/// Writes a file, or leaves everything as it was: the bytes go to a new file in the same folder (`path`.tmp-…), reach the
/// disk, and take the name in one step. Same content, same bytes: the widest type first, then by name; every tensor
/// is aligned to its element. Error on equal or reserved names, on text that is not UTF-8, on a size that does not fit
/// the shape, and on what the system refuses, with its reason.
void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace capstan::nn
