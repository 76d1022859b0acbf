// Safetensors: every malformed file with its sentence, what is unusual but legal, and random damage.
#include "nn/io/safetensors_files.h"

#include <sys/stat.h>

#include <random>

namespace capstan::nn {
namespace {

using SafetensorsRefuses = Safetensors;

// Each malformed file gives exactly this sentence, ended by `, in "path"` (+ remedy).
TEST_F(SafetensorsRefuses, MalformedFilesToTheLetter) {
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

TEST_F(SafetensorsRefuses, WhatIsUnusualButLegal) {
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

TEST_F(SafetensorsRefuses, DeepNestingIsRefusedWithoutDescending) {
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

TEST_F(SafetensorsRefuses, ALongNameIsCutInErrors) {
  const std::string name(1'000'000, 'n');
  write_bytes(file_of("{\"" + name + "\":1}", 0));
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path()); }),
            "safetensors: \"" + name.substr(0, 200) + "\"… must be an object; got a number, in \"" + path() + "\"");
}

TEST_F(SafetensorsRefuses, WhatIsNotAReadableFile) {
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path("none")); }),
            "safetensors: \"" + path("none") + "\" must be a readable file; got \"No such file or directory\"");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder_.path().string()); }),
            "safetensors: \"" + folder_.path().string() + "\" must be a regular file; got a directory");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(path("pipe")); }),
            "safetensors: \"" + path("pipe") + "\" must be a regular file; got another kind");
}

TEST_F(SafetensorsRefuses, AFileThatShrinksWhileOpenIsAnError) {
  write_bytes(file_of(entry("\"F32\"", "[1000]", "[0,4000]"), 4000));
  const SafetensorsFile file = SafetensorsFile::open(path());
  fs::resize_file(path(), 1000);
  EXPECT_EQ(error_of([&] { read<float>(file, "a"); }),
            "safetensors: the file must not shrink while it is read; got its end at byte 1000, in \"" + path() + "\"");
}

// 20 000 damaged files: bytes flipped, removed, doubled and swapped in, numbers exchanged for extreme ones. Each is read to its
// end or refused by an Error; the share that survives shows that the damage is not always at the door.
TEST_F(SafetensorsRefuses, RandomDamageGivesErrorsOnly) {
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
