// System calls of reading and of the atomic write. What the header means is decided in safetensors_header.cpp.
#include <capstan/autograd/format.h>
#include <capstan/nn/io/safetensors_header.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

namespace capstan::nn {

using detail::in_quotes;

namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian, and copied as they are");

std::string reason(int error) { return std::generic_category().message(error); }

// ---- reading ------------------------------------------------------------------------------------------------------

// Converts `stored` values in place of a second pass over the file: a chunk is read, widened or narrowed, and dropped.
template <class Stored>
void convert_to_i32(const std::string& path, const SafetensorsEntry& entry, std::span<const std::byte> chunk,
                    std::uint64_t first, std::byte* out) {
  for (std::size_t i = 0; i < chunk.size() / sizeof(Stored); ++i) {
    Stored value;
    std::memcpy(&value, chunk.data() + i * sizeof(Stored), sizeof(Stored));
    if (!std::in_range<std::int32_t>(value))
      fail("safetensors: {} (I64) must hold values that fit i32; got {} at element {}, in {}", in_quotes(entry.name),
           value, first + i, in_quotes(path));
    const auto narrow = static_cast<std::int32_t>(value);
    std::memcpy(out + (first + i) * sizeof(narrow), &narrow, sizeof(narrow));
  }
}

// ---- writing ------------------------------------------------------------------------------------------------------

// The new file before it has its name. Leaves nothing behind unless `publish` succeeded.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : path_(path) {
    static std::atomic<unsigned> counter{0};
    temporary_ = fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) refuse("creating a file beside it");
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, std::size_t bytes) {
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, next, std::min(bytes, std::size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse("writing");
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }

  void publish() {
    if (::fsync(descriptor_) != 0) refuse("flushing");
    if (::close(std::exchange(descriptor_, -1)) != 0) refuse("closing");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) refuse("renaming");
    temporary_.clear();
    const std::size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;  // a folder that may be written but not listed: the file is whole, if not yet durable
    const int error = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // Some file systems have no such flush and say EINVAL.
    if (error != 0 && error != EINVAL) refuse("flushing its folder", error);
  }

 private:
  [[noreturn]] void refuse(std::string_view action, int error = errno) const {
    fail("safetensors: {} must be writable; got \"{}\" when {}", in_quotes(path_), reason(error), action);
  }
  std::string path_, temporary_;
  int descriptor_ = -1;
};

SafetensorsType stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return SafetensorsType::f32;
    case DType::f64: return SafetensorsType::f64;
    case DType::i32: return SafetensorsType::i32;
    case DType::boolean: break;
  }
  return SafetensorsType::boolean;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  // Without O_NONBLOCK a named pipe would wait for a writer before it can be refused.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0)
    fail("safetensors: {} must be a readable file; got \"{}\"", in_quotes(path), reason(errno));
  if (!S_ISREG(status.st_mode))
    fail("safetensors: {} must be a regular file; got {}", in_quotes(path),
         S_ISDIR(status.st_mode) ? "a directory" : "another kind");

  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < 8) fail("safetensors: a file must have at least 8 bytes; got {}, in {}", bytes, in_quotes(path));
  std::array<std::byte, 8> prefix;
  file.read_at(0, prefix);
  const auto header_bytes = std::bit_cast<std::uint64_t>(prefix);
  if (header_bytes > bytes - 8)
    fail("safetensors: the header must fit into the file's {} bytes; got a header length of {}, in {}", bytes,
         header_bytes, in_quotes(path));
  std::string json(static_cast<std::size_t>(header_bytes), '\0');
  file.read_at(8, std::as_writable_bytes(std::span(json)));
  file.data_start_ = 8 + header_bytes;
  detail::SafetensorsHeader header = detail::parse_safetensors_header(path, json, bytes - file.data_start_);
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_start_(other.data_start_),
      entries_(std::move(other.entries_)),
      metadata_(std::move(other.metadata_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_start_, other.data_start_);
  std::swap(entries_, other.entries_);
  std::swap(metadata_, other.metadata_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const SafetensorsEntry& entry, std::string_view sought) { return entry.name < sought; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::span<std::byte> out) const {
  if (out.size() != entry.bytes())
    fail("safetensors: the buffer for {} must have {} bytes; got {}", in_quotes(entry.name), entry.bytes(), out.size());
  if (entry.stored != SafetensorsType::i64 && entry.stored != SafetensorsType::u8) {
    read_at(data_start_ + entry.begin, out);
    if (entry.stored != SafetensorsType::boolean) return;
    const auto wrong = std::find_if(out.begin(), out.end(), [](std::byte value) { return value > std::byte{1}; });
    if (wrong != out.end())
      fail("safetensors: {} (BOOL) must hold 0 or 1; got {} at element {}, in {}", in_quotes(entry.name),
           std::to_integer<int>(*wrong), wrong - out.begin(), in_quotes(path_));
    return;
  }
  std::array<std::byte, 1 << 14> buffer;
  const std::uint64_t size = detail::stored_size(entry.stored);
  for (std::uint64_t at = entry.begin; at < entry.end; at += buffer.size()) {
    const std::span chunk(buffer.data(),
                          static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), entry.end - at)));
    read_at(data_start_ + at, chunk);
    const std::uint64_t first = (at - entry.begin) / size;
    if (entry.stored == SafetensorsType::i64)
      convert_to_i32<std::int64_t>(path_, entry, chunk, first, out.data());
    else
      convert_to_i32<std::uint8_t>(path_, entry, chunk, first, out.data());
  }
}

void SafetensorsFile::read_at(std::uint64_t position, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        ::pread(descriptor_, out.data(), std::min(out.size(), std::size_t{1} << 30), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("safetensors: {} must be a readable file; got \"{}\"", in_quotes(path_), reason(errno));
    if (got == 0)
      fail("safetensors: the file must not shrink while it is read; got its end at byte {}, in {}", position,
           in_quotes(path_));
    position += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsTensor*> order;
  for (const SafetensorsTensor& tensor : tensors) {
    const Index bytes = tensor.shape.elements() * size_of(tensor.dtype);
    if (tensor.data.size() != static_cast<std::size_t>(bytes))
      fail("safetensors: {} must come with {} bytes (shape {}, {}); got {}", in_quotes(tensor.name), bytes,
           tensor.shape, tensor.dtype, tensor.data.size());
    if (tensor.name == "__metadata__")
      fail("safetensors: a tensor must not be named __metadata__; the format reserves it");
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return std::pair(-size_of(a->dtype), std::string_view(a->name)) <
           std::pair(-size_of(b->dtype), std::string_view(b->name));
  });

  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (const SafetensorsTensor* tensor : order) {
    const std::uint64_t begin = std::exchange(end, end + tensor->data.size());
    entries.push_back({tensor->name, stored_type(tensor->dtype), tensor->dtype, tensor->shape, begin, end});
  }
  const std::string json = detail::format_safetensors_header(entries, metadata);
  // Reading it back is the check that the names are unique, and that no file is written that would be refused.
  detail::parse_safetensors_header(path, json, end);

  TemporaryFile file(path);
  const auto header_bytes = static_cast<std::uint64_t>(json.size());
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(json.data(), json.size());
  for (const SafetensorsTensor* tensor : order) file.write(tensor->data.data(), tensor->data.size());
  file.publish();
}

}  // namespace capstan::nn
