// Safetensors: round trips, a file of the original library byte for byte, types, and writing: mistakes, failures, readers at work.
#include "nn/io/safetensors_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <numeric>

namespace capstan::nn {
namespace {

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

}  // namespace
}  // namespace capstan::nn
