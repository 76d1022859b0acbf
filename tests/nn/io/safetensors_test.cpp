// Safetensors: round trips, a file of the original library byte for byte, every malformed file with its sentence,
// failing writes, and random damage.
#include <capstan/autograd/error.h>
#include <capstan/nn/io/safetensors.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "support/expect.h"
#include "support/temporary_folder.h"

namespace capstan::nn {
namespace {

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
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

// One tensor "a" of the given fields.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
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

TEST_F(Safetensors, RoundTripOfEveryTypeWithEmptyAndScalarShapes) {
  const std::vector<float> f32 = {1, -2.5f, 3e-45f, -0.0f, 1e38f, 6};
  const std::vector<double> f64 = {0.1, -1e308};
  const std::vector<std::int32_t> i32 = {-5};
  const std::vector<std::uint8_t> boolean = {1, 0, 1};
  const std::vector<SafetensorsTensor> tensors = {{"blocks.0.weight", DType::f32, {2, 3}, bytes_of(f32)},
                                                  {"step", DType::i32, {}, bytes_of(i32)},
                                                  {"mask \"ü\"\n", DType::boolean, {1, 3, 1}, bytes_of(boolean)},
                                                  {"empty", DType::f32, {2, 0}, {}},
                                                  {"double", DType::f64, {2}, bytes_of(f64)},
                                                  {"a/empty double", DType::f64, {0}, {}}};
  const std::map<std::string, std::string> metadata = {{"format", "capstan"}, {"text", "line\n\"quoted\" 数"}};
  write_safetensors(path(), tensors, metadata);
  EXPECT_EQ(files(), 1u);

  const SafetensorsFile file = SafetensorsFile::open(path());
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const SafetensorsTensor& tensor : tensors) {
    const SafetensorsEntry* found = file.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->dtype, tensor.dtype);
    EXPECT_EQ(found->begin % static_cast<std::uint64_t>(size_of(tensor.dtype)), 0u);
    std::vector<std::byte> data(found->bytes());
    file.read(*found, data);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), tensor.data.begin(), tensor.data.end())) << tensor.name;
  }
  EXPECT_EQ(file.find("step2"), nullptr);
  for (std::size_t i = 1; i < file.entries().size(); ++i) EXPECT_LT(file.entries()[i - 1].name, file.entries()[i].name);
}

TEST_F(Safetensors, SameContentSameBytesWithAlignedData) {
  const std::vector<float> one = {1}, two = {2};
  const std::vector<double> three = {3};
  std::vector<SafetensorsTensor> tensors = {{"b", DType::f32, {1}, bytes_of(one)},
                                            {"a", DType::f32, {}, bytes_of(two)},
                                            {"z", DType::f64, {1, 1}, bytes_of(three)}};
  write_safetensors(path("1"), tensors, {{"k", "v"}});
  std::swap(tensors[0], tensors[2]);
  write_safetensors(path("2"), tensors, {{"k", "v"}});
  const std::string bytes = read_bytes(path("1"));
  EXPECT_EQ(bytes, read_bytes(path("2")));
  const std::string header = R"({"__metadata__":{"k":"v"},"z":{"dtype":"F64","shape":[1,1],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_EQ(bytes.size(), 8 + padded + 16);
  EXPECT_EQ(bytes.substr(8, padded), header + std::string(padded - header.size(), ' '));
}

TEST_F(Safetensors, NothingAtAllIsAFileToo) {
  write_safetensors(path(), {});
  EXPECT_EQ(read_bytes(path()), file_of("{}      ", 0));
  const SafetensorsFile file = SafetensorsFile::open(path());
  EXPECT_TRUE(file.entries().empty());
  EXPECT_TRUE(file.metadata().empty());
}

// tiny_gpt2.safetensors was written by the format's own library (see tests/golden/README.md).
TEST_F(Safetensors, ReadsAndRewritesAFileOfTheOriginalLibraryByteForByte) {
  const std::string golden = std::string(CAPSTAN_GOLDEN_DIR) + "/tiny_gpt2.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(golden);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.entries().size(), 28u);
  EXPECT_EQ(file.entries()[0].name, "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(file.entries()[1].shape, (Shape{32, 96}));
  const auto embedding = read<float>(file, "transformer.wte.weight");
  ASSERT_EQ(embedding.size(), 65u * 32);
  EXPECT_EQ(embedding[0], 0.041999898850917816f);
  EXPECT_NEAR(std::accumulate(embedding.begin(), embedding.end(), 0.0), -3.0426933557610027, 1e-12);

  std::vector<std::vector<std::byte>> data;
  std::vector<SafetensorsTensor> tensors;
  for (const SafetensorsEntry& one : file.entries()) {
    data.emplace_back(one.bytes());
    file.read(one, data.back());
    tensors.push_back({one.name, one.dtype, one.shape, data.back()});
  }
  write_safetensors(path(), tensors, file.metadata());
  EXPECT_TRUE(read_bytes(path()) == read_bytes(golden));
}

TEST_F(Safetensors, I64AndU8AreReadAsI32WithinBounds) {
  std::string bytes = file_of(R"({"ids":{"dtype":"I64","shape":[3000],"data_offsets":[0,24000]},)"
                              R"("bytes":{"dtype":"U8","shape":[3],"data_offsets":[24000,24003]}})",
                              24003);
  const std::size_t data = bytes.size() - 24003;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const std::int64_t value = i == 1 ? 2147483647 : i == 2 ? -2147483648 : 7 * i;
    std::memcpy(bytes.data() + data + 8 * static_cast<std::size_t>(i), &value, 8);
  }
  bytes.back() = '\xff';
  write_bytes(bytes);
  {
    const SafetensorsFile file = SafetensorsFile::open(path());
    EXPECT_EQ(file.find("ids")->dtype, DType::i32);
    EXPECT_EQ(file.find("ids")->bytes(), 12000u);
    const auto ids = read<std::int32_t>(file, "ids");
    for (std::int32_t i = 3; i < 3000; ++i) ASSERT_EQ(ids[static_cast<std::size_t>(i)], 7 * i);
    EXPECT_EQ(ids[0], 0);
    EXPECT_EQ(ids[1], 2147483647);
    EXPECT_EQ(ids[2], -2147483647 - 1);
    EXPECT_EQ(read<std::int32_t>(file, "bytes"), (std::vector<std::int32_t>{0, 0, 255}));
  }
  const std::int64_t too_big = 2147483648;
  std::memcpy(bytes.data() + data + 8 * 2500, &too_big, 8);
  write_bytes(bytes);
  EXPECT_EQ(error_of([&] { read<std::int32_t>(SafetensorsFile::open(path()), "ids"); }),
            "safetensors: \"ids\" (I64) must hold values that fit i32; got 2147483648 at element 2500, in \"" + path() +
                "\"");
}

TEST_F(Safetensors, ABooleanIsZeroOrOne) {
  std::string bytes = file_of(entry("\"BOOL\"", "[3]", "[0,3]"), 3);
  bytes.back() = 2;
  write_bytes(bytes);
  EXPECT_EQ(error_of([&] { read<std::uint8_t>(SafetensorsFile::open(path()), "a"); }),
            "safetensors: \"a\" (BOOL) must hold 0 or 1; got 2 at element 2, in \"" + path() + "\"");
}

// Each malformed file gives exactly this sentence, ended by `, in "path"` (+ remedy).
TEST_F(Safetensors, MalformedFilesToTheLetter) {
  const std::string f32 = "\"F32\"", four = "[0,4]";
  const std::string good = R"({"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  const auto two = [](const std::string& first, const std::string& second, const std::string& shape = "[1]") {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  std::string huge_length = file_of("{}", 0), long_header = file_of("{}", 0);
  std::memset(huge_length.data(), 0xff, 8);
  long_header[0] = 3;
  const struct {
    std::string bytes, sentence, remedy;
  } cases[] = {
      // The length of the header.
      {"", "a file must have at least 8 bytes; got 0", ""},
      {"1234567", "a file must have at least 8 bytes; got 7", ""},
      {huge_length, "the header must fit into the file's 10 bytes; got a header length of 18446744073709551615", ""},
      {long_header, "the header must fit into the file's 10 bytes; got a header length of 3", ""},
      // Its syntax.
      {file_of("", 0), "the header must be a JSON object; got no '{' at its start", ""},
      {file_of(" {}", 0), "the header must be a JSON object; got no '{' at its start", ""},
      {file_of("[]", 0), "the header must be a JSON object; got no '{' at its start", ""},
      {file_of("{", 0), "the header must be JSON; got a syntax error at its byte 2", ""},
      {file_of("{} x", 0), "the header must be JSON; got a syntax error at its byte 4", ""},
      {file_of("{}{}", 0), "the header must be JSON; got a syntax error at its byte 3", ""},
      {file_of(std::string("{}\0{", 4), 0), "the header must be JSON; got a syntax error at its byte 3", ""},
      {file_of("{\"\xff\":{}}", 0), "the header must be JSON; got a syntax error at its byte 3", ""},
      {file_of("{a:1}", 0), "the header must be JSON; got a syntax error at its byte 2", ""},
      // Its structure.
      {file_of(R"({"a":[]})", 0), "\"a\" must be an object; got an array", ""},
      {file_of(R"({"a":1})", 0), "\"a\" must be an object; got a number", ""},
      {file_of(R"({"a":-1})", 0), "\"a\" must be an object; got a number", ""},
      {file_of(R"({"a":null})", 0), "\"a\" must be an object; got null", ""},
      {file_of(R"({"a":true})", 0), "\"a\" must be an object; got a boolean", ""},
      {file_of(R"({"__metadata__":"x"})", 0), "\"__metadata__\" must be an object; got a string", ""},
      {file_of(R"({"__metadata__":{"k":1}})", 0), "__metadata__ must hold text only; got a number for \"k\"", ""},
      {file_of(R"({"__metadata__":{"k":{}}})", 0), "__metadata__ must hold text only; got an object for \"k\"", ""},
      {file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "names must be unique; got \"k\" twice in __metadata__",
       ""},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__ must occur once; got it twice", ""},
      {file_of("{\"a\":" + good + ",\"a\":" + good + "}", 4), "names must be unique; got \"a\" twice", ""},
      {file_of(R"({"a":{}})", 0), "\"a\" must have dtype, shape and data_offsets; got no dtype", ""},
      {file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4),
       "\"a\" must have dtype, shape and data_offsets; got no shape", ""},
      {file_of(R"({"a":{"dtype":"F32","shape":[]}})", 4),
       "\"a\" must have dtype, shape and data_offsets; got no data_offsets", ""},
      {file_of(R"({"a":{"dtype":"F32","dtype":"F64"}})", 4), "\"a\" must have one dtype; got two", ""},
      {file_of(R"({"a":{"device":"cpu"}})", 4), "\"a\" must have dtype, shape and data_offsets only; got \"device\"",
       ""},
      {file_of(R"({"a":{"dtype":{}}})", 4), "dtype of \"a\" must be a string; got an object", ""},
      {file_of(R"({"a":{"dtype":[]}})", 4), "dtype of \"a\" must be a string; got an array", ""},
      {file_of(R"({"a":{"shape":"x"}})", 4), "shape of \"a\" must be an array; got a string", ""},
      {file_of(R"({"a":{"shape":-1}})", 4), "shape of \"a\" must be an array; got a number", ""},
      {file_of(entry("\"BF16\"", "[2]", four), 4),
       "dtype of \"a\" must be F32, F64, I32, BOOL, I64 or U8; got \"BF16\"", "; convert the file first"},
      {file_of(entry("\"f32\"", "[]", four), 4), "dtype of \"a\" must be F32, F64, I32, BOOL, I64 or U8; got \"f32\"",
       "; convert the file first"},
      // Sizes.
      {file_of(entry(f32, "[-1]", four), 4), "shape of \"a\" must hold integers in [0, 2^64); got -1", ""},
      {file_of(entry(f32, "[1.0]", four), 4), "shape of \"a\" must hold integers in [0, 2^64); got 1.0", ""},
      {file_of(entry(f32, "[18446744073709551616]", four), 4),
       "shape of \"a\" must hold integers in [0, 2^64); got 18446744073709551616", ""},
      {file_of(entry(f32, "[[1]]", four), 4), "shape of \"a\" must hold numbers only; got an array", ""},
      {file_of(entry(f32, "[\"1\"]", four), 4), "shape of \"a\" must hold numbers only; got a string", ""},
      {file_of(entry(f32, "[1,1,1,1,1,1,1,1,1]", four), 4), "shape of \"a\" must have at most 8 numbers; got more", ""},
      {file_of(entry(f32, "[4611686018427387904]", "[0,0]"), 0),
       "\"a\" must take more than 2^64 bytes (shape [4611686018427387904], 4 each); got data_offsets [0, 0]", ""},
      {file_of(entry(f32, "[4611686018427387905]", four), 4),
       "\"a\" must have at most 2^62 elements; got shape [4611686018427387905]", ""},
      {file_of(entry(f32, "[4294967296,4294967296]", "[0,0]"), 0),
       "\"a\" must have at most 2^62 elements; got shape [4294967296, 4294967296]", ""},
      {file_of(entry(f32, "[0,18446744073709551615]", "[0,0]"), 0),
       "\"a\" must have at most 2^62 elements; got shape [0, 18446744073709551615]", ""},
      // Ranges.
      {file_of(entry(f32, "[]", "[0]"), 4), "data_offsets of \"a\" must be two numbers; got 1", ""},
      {file_of(entry(f32, "[]", "[0,4,4]"), 4), "data_offsets of \"a\" must be two numbers; got 3", ""},
      {file_of(entry(f32, "[]", "[-4,0]"), 4), "data_offsets of \"a\" must hold integers in [0, 2^64); got -4", ""},
      {file_of(entry(f32, "[]", "[8,4]"), 8), "data_offsets of \"a\" must not decrease; got [8, 4]", ""},
      {file_of(entry(f32, "[32,8]", "[0,65536]"), 65536),
       "\"a\" must take 1024 bytes (shape [32, 8], 4 each); got data_offsets [0, 65536]", ""},
      {file_of(entry(f32, "[2,0]", four), 4), "\"a\" must take 0 bytes (shape [2, 0], 4 each); got data_offsets [0, 4]",
       ""},
      {file_of(entry(f32, "[]", four), 3), "\"a\" must end within the file's 3 bytes of data; got data_offsets [0, 4]",
       ""},
      {file_of(entry(f32, "[]", "[18446744073709551612,18446744073709551615]"), 4),
       "\"a\" must take 4 bytes (shape [], 4 each); got data_offsets [18446744073709551612, 18446744073709551615]", ""},
      {file_of(entry(f32, "[]", "[4,8]"), 8), "tensors must lie end to end; got \"a\" at byte 4 where byte 0 is due",
       ""},
      {file_of(two("[0,4]", "[0,4]"), 4), "tensors must lie end to end; got \"b\" at byte 0 where byte 4 is due", ""},
      {file_of(two("[0,8]", "[4,8]", "[2]"), 8), "tensors must lie end to end; got \"b\" at byte 4 where byte 8 is due",
       ""},
      {file_of(two("[0,4]", "[8,12]"), 12), "tensors must lie end to end; got \"b\" at byte 8 where byte 4 is due", ""},
      {file_of(two("[2,2]", "[0,4]", "[0]"), 4), "tensors must lie end to end; got \"a\" at byte 2 where byte 4 is due",
       ""},
      {file_of(two("[0,4]", "[4,8]"), 9), "the file must end with its last tensor, at byte 8 of the data; got 9 bytes",
       ""},
      {file_of("{}", 1), "the file must end with its last tensor, at byte 0 of the data; got 1 bytes", ""},
  };
  for (const auto& [bytes, sentence, remedy] : cases) {
    write_bytes(bytes);
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }),
              "safetensors: " + sentence + ", in \"" + path() + "\"" + remedy);
  }
}

TEST_F(Safetensors, WhatIsUnusualButLegal) {
  for (
      const auto& [header, data_bytes] : std::vector<std::pair<std::string, std::size_t>>{
          {"{}", 0},
          {"{} \n\t ", 0},
          {entry("\"F32\"", "[2,0]", "[0,0]"), 0},
          {entry("\"F32\"", "[]", "[0,4]"), 4},
          {entry("\"F64\"", "[1,1,1,1,1,1,1,1]", "[0,8]"), 8},
          {R"({"__metadata__":{},"b":{"data_offsets":[4,8],"shape":[1],"dtype":"I32"},"":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
           8},
          {R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
           4}}) {
    write_bytes(file_of(header, data_bytes));
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }), "no error") << header;
  }
}

TEST_F(Safetensors, DeepNestingIsRefusedWithoutDescending) {
  std::string objects = "{", arrays = R"({"a":{"shape":[)";
  for (int i = 0; i < 300'000; ++i) {
    objects += "\"a\":{";
    arrays += '[';
  }
  write_bytes(file_of(objects, 0));
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }),
            "safetensors: \"a\" must have dtype, shape and data_offsets only; got \"a\", in \"" + path() + "\"");
  write_bytes(file_of(arrays, 0));
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }),
            "safetensors: shape of \"a\" must hold numbers only; got an array, in \"" + path() + "\"");
}

TEST_F(Safetensors, ALongNameIsCutInErrors) {
  const std::string name(1'000'000, 'n');
  write_bytes(file_of("{\"" + name + "\":1}", 0));
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }),
            "safetensors: \"" + name.substr(0, 200) + "\"… must be an object; got a number, in \"" + path() + "\"");
}

TEST_F(Safetensors, WhatIsNotAReadableFile) {
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path("none")); }),
            "safetensors: \"" + path("none") + "\" must be a readable file; got \"No such file or directory\"");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder_.path().string()); }),
            "safetensors: \"" + folder_.path().string() + "\" must be a regular file; got a directory");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path("pipe")); }),
            "safetensors: \"" + path("pipe") + "\" must be a regular file; got another kind");
}

TEST_F(Safetensors, AFileThatShrinksWhileOpenIsAnError) {
  write_bytes(file_of(entry("\"F32\"", "[1000]", "[0,4000]"), 4000));
  const SafetensorsFile file = SafetensorsFile::open(path());
  fs::resize_file(path(), 1000);
  EXPECT_EQ(error_of([&] { read<float>(file, "a"); }),
            "safetensors: the file must not shrink while it is read; got its end at byte 1000, in \"" + path() + "\"");
}

TEST_F(Safetensors, MovesAndChecksTheBuffer) {
  write_bytes(file_of(entry("\"F32\"", "[2]", "[0,8]"), 8));
  SafetensorsFile first = SafetensorsFile::open(path());
  SafetensorsFile second = std::move(first);
  EXPECT_EQ(read<float>(second, "a").size(), 2u);
  first = std::move(second);
  EXPECT_EQ(read<float>(first, "a").size(), 2u);
  std::vector<std::byte> small(7);
  EXPECT_EQ(error_of([&] { first.read(first.entries()[0], small); }),
            "safetensors: the buffer for \"a\" must have 8 bytes; got 7");
}

TEST_F(Safetensors, WritersMistakesToTheLetterAndNothingIsWritten) {
  const std::vector<float> one = {1};
  const auto data = bytes_of(one);
  const auto message = [&](const std::vector<SafetensorsTensor>& tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    return error_of([&] { write_safetensors(path(), tensors, metadata); });
  };
  EXPECT_EQ(message({{"a", DType::f32, {2}, data}}),
            "safetensors: \"a\" must come with 8 bytes (shape [2], f32); got 4");
  EXPECT_EQ(message({{"__metadata__", DType::f32, {}, data}}),
            "safetensors: a tensor must not be named __metadata__; the format reserves it");
  EXPECT_EQ(message({{"a", DType::f32, {}, data}, {"a", DType::i32, {1}, data}}),
            "safetensors: names must be unique; got \"a\" twice, in \"" + path() + "\"");
  EXPECT_EQ(message({{"a\xff", DType::f32, {}, data}}),
            "safetensors: names and metadata must be UTF-8; got \"a\\xff\"");
  EXPECT_EQ(message({}, {{"k", "\xc3"}}), "safetensors: names and metadata must be UTF-8; got \"\\xc3\"");
  EXPECT_EQ(files(), 0u);
}

TEST_F(Safetensors, AFailedWriteLeavesTheOldFileAndNoOther) {
  const std::vector<float> small = {1, 2, 3}, big(100'000, 4);
  write_safetensors(path(), std::vector<SafetensorsTensor>{{"a", DType::f32, {3}, bytes_of(small)}});
  const std::string before = read_bytes(path());

  // A limit on the size of files stands for a full disk: the write fails half-way.
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{200'000, old_limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = error_of([&] {
    write_safetensors(path(), std::vector<SafetensorsTensor>{{"a", DType::f32, {100'000}, bytes_of(big)}});
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "safetensors: \"" + path() + "\" must be writable; got \"File too large\" when writing");
  EXPECT_EQ(read_bytes(path()), before);
  EXPECT_EQ(files(), 1u);

  write_safetensors(path(), std::vector<SafetensorsTensor>{{"a", DType::f32, {100'000}, bytes_of(big)}});
  EXPECT_EQ(read<float>(SafetensorsFile::open(path()), "a"), big);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Safetensors, UnwritablePlacesToTheLetter) {
  const auto message = [](const std::string& place) { return error_of([&] { write_safetensors(place, {}); }); };
  EXPECT_EQ(message(path("none/x")),
            "safetensors: \"" + path("none/x") +
                "\" must be writable; got \"No such file or directory\" when creating a file beside it");
  write_bytes("old");
  EXPECT_EQ(message(path("x.safetensors/y")),
            "safetensors: \"" + path("x.safetensors/y") +
                "\" must be writable; got \"Not a directory\" when creating a file beside it");
  EXPECT_EQ(read_bytes(path()), "old");
  fs::create_directory(path("folder"));
  EXPECT_EQ(message(path("folder")),
            "safetensors: \"" + path("folder") + "\" must be writable; got \"Is a directory\" when renaming");
  EXPECT_EQ(files(), 2u);  // x.safetensors and folder, no temporary one
}

// An open reader keeps the old content: the new file is another one that takes the name.
TEST_F(Safetensors, AReaderIsNotDisturbedByAWriter) {
  const std::vector<float> one = {1}, two = {2};
  write_safetensors(path(), std::vector<SafetensorsTensor>{{"a", DType::f32, {}, bytes_of(one)}});
  const SafetensorsFile reader = SafetensorsFile::open(path());
  write_safetensors(path(), std::vector<SafetensorsTensor>{{"a", DType::f32, {}, bytes_of(two)}});
  EXPECT_EQ(read<float>(reader, "a"), one);
  EXPECT_EQ(read<float>(SafetensorsFile::open(path()), "a"), two);
}

// 20 000 damaged files: bytes flipped, removed, doubled and swapped in, numbers exchanged for extreme ones. Each is read to its
// end or refused by an Error; the share that survives shows that the damage is not always at the door.
TEST_F(Safetensors, RandomDamageGivesErrorsOnly) {
  const std::string header =
      R"({"__metadata__":{"format":"pt","step":"12"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
      R"("a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"mask":{"dtype":"BOOL","shape":[4],"data_offsets":[32,36]},)"
      R"("none":{"dtype":"F64","shape":[0,5],"data_offsets":[36,36]},"u":{"dtype":"U8","shape":[],"data_offsets":[36,37]}})";
  const std::vector<std::string> numbers = {"0",
                                            "1",
                                            "-1",
                                            "4",
                                            "8",
                                            "36",
                                            "1e3",
                                            "4294967296",
                                            "4611686018427387904",
                                            "9223372036854775807",
                                            "18446744073709551615",
                                            "18446744073709551616",
                                            "1e999",
                                            "null"};
  const std::string tokens = "{}[]\",:0123456789-.eEF\\u \t\n\0\x80\xff";
  std::mt19937_64 random(20240229);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string json = header;
    for (std::size_t damage = below(3) + (i % 2 == 0 ? 1u : 0u); damage-- > 0;) {
      const std::size_t at = below(json.size());
      switch (below(6)) {
        case 0: json[at] = static_cast<char>(random()); break;
        case 1: json[at] = tokens[below(tokens.size())]; break;
        case 2: json.erase(at, 1 + below(8)); break;
        case 3: json.insert(at, json.substr(below(json.size()), below(60))); break;
        case 4: json.insert(at, 1, tokens[below(tokens.size())]); break;
        default: {
          const std::size_t digit = json.find_first_of("0123456789", at);
          if (digit == std::string::npos) break;
          json.replace(digit, json.find_first_not_of("0123456789", digit) - digit, numbers[below(numbers.size())]);
        }
      }
    }
    std::string bytes = file_of(json, 37);
    if (i % 8 == 0) bytes[below(8)] = static_cast<char>(random());
    if (i % 8 == 1) bytes.resize(below(bytes.size()));
    if (i % 8 == 2) bytes[bytes.size() - 1 - below(37)] = static_cast<char>(random());
    write_bytes(bytes);
    try {
      const SafetensorsFile file = SafetensorsFile::open(path());
      for (const SafetensorsEntry& one : file.entries()) {
        ASSERT_LE(one.bytes(), bytes.size() * 4);
        std::vector<std::byte> data(one.bytes());
        file.read(one, data);
      }
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(std::string(error.what()).substr(0, 13), "safetensors: ");
      ++refused;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace capstan::nn
