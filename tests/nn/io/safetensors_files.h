// What the tests of safetensors share: a folder for each test, files made byte by byte, and reading one tensor.
#pragma once

#include <capstan/autograd/error.h>
#include <capstan/nn/io/safetensors.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "support/expect.h"
#include "support/temporary_folder.h"

namespace capstan::nn {

namespace fs = std::filesystem;
using test::error_of;

// A folder of its own for each test.
class Safetensors : public testing::Test {
 protected:
  std::string path(const std::string& name = "x.safetensors") const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  void write_bytes(const std::string& bytes) const {
    fs::remove(path());  // to truncate a file in place is slow on some file systems
    std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const test::TemporaryFolder folder_;
};

// A file as bytes: length, header, `data_bytes` zeros.
inline std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

// One tensor "a" of the given fields.
inline std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsEntry* found = file.find(name);
  if (found == nullptr) throw Error("no tensor " + name);
  std::vector<T> values(found->bytes() / sizeof(T));
  file.read(*found, std::as_writable_bytes(std::span(values)));
  return values;
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace capstan::nn
