#include "train_gpt/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "support/expect.h"
#include "support/temporary_folder.h"

namespace capstan::train_gpt {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> names_of(const Text& text, const fs::path& base) {
  std::vector<std::string> names;
  for (const TextFile& file : text.files)
    names.push_back(fs::path(file.name).lexically_relative(base).generic_string());
  return names;
}

std::string judge(const std::string& content) {
  Text text;
  return error_of([&] { append(text, "x", content); });
}

TEST(Text, KeepsBytesAsTheyAre) {
  const TemporaryFolder folder;
  const std::string chinese = "落霞与孤鹜齐飞，秋水共长天一色。\n";
  const std::string windows = "one\r\ntwo\r\n";
  const std::string unended = "no line feed";
  const Text text =
      read_text({folder.write("c.txt", chinese), folder.write("w.txt", windows), folder.write("u.txt", unended)});
  EXPECT_EQ(text.bytes, chinese + windows + unended);
  EXPECT_EQ(text.of(text.files[0]), chinese);
  EXPECT_EQ(text.of(text.files[1]), windows);
  EXPECT_EQ(text.of(text.files[2]), unended);
}

TEST(Text, JudgesWhatIsText) {
  EXPECT_EQ(judge("tab\tform\ffeed\r\n"), "no error");
  EXPECT_EQ(judge("\xc4\xe3\xba\xc3 in GBK"), "no error");
  EXPECT_EQ(judge(""), "data: x must be text; got an empty file; give text files, best in UTF-8");
  EXPECT_EQ(judge(std::string("ab\0c", 4)),
            "data: x must be text; got a NUL byte at offset 2; give text files, best in UTF-8");
  EXPECT_EQ(judge(std::string(19, 'a') + '\x01'), "no error");
  EXPECT_EQ(judge(std::string(18, 'a') + '\x01'),
            "data: x must be text; got 1 control characters in 19 bytes; give text files, best in UTF-8");
}

TEST(Text, RefusesBinaryFilesWithoutNul) {
  std::string noise;
  for (std::uint32_t i = 1, state = 1; i <= 4096; ++i) {
    state = state * 1664525 + 1013904223;
    noise += static_cast<char>(1 + (state >> 16) % 255);
  }
  EXPECT_THAT(judge(noise), HasSubstr("control characters in 4096 bytes"));
}

TEST(Text, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing.txt").string();
  EXPECT_EQ(error_of([&] { read_text({missing}); }),
            "data: " + missing + " must be a file or a folder; got nothing of that name");
  const std::string empty = folder.write("empty.txt", "").string();
  EXPECT_EQ(error_of([&] { read_text({empty}); }),
            "data: " + empty + " must be text; got an empty file; give text files, best in UTF-8");
  // Its first page is never mapped, so that even root cannot read it.
  EXPECT_EQ(error_of([] { read_text({"/proc/self/mem"}); }),
            "data: /proc/self/mem must be readable; got \"Input/output error\"");
  EXPECT_EQ(error_of([] { read_text({"/dev/null"}); }),
            "data: /dev/null must be a file or a folder; got a device or socket");
  EXPECT_EQ(error_of([] { read_text({}); }),
            "data: there must be at least one text file; got none; name one with --data FILE");
}

TEST(Text, TakesFoldersInTheOrderOfNames) {
  const TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.txt", "z");
  folder.write("B.txt", "B");
  folder.write(".hidden/x.txt", "x");
  folder.write(".dot", "dot");
  folder.write("empty", "");
  folder.write("image", std::string("\x89PNG\0\0", 6));
  EXPECT_THAT(names_of(read_text({folder.path()}), folder.path()), ElementsAre("B.txt", "a/z.txt", "b.txt"));
}

TEST(Text, RefusesFoldersWithoutText) {
  const TemporaryFolder folder;
  folder.write("image", std::string("\x89PNG\0\0", 6));
  folder.write("empty", "");
  EXPECT_EQ(error_of([&] { read_text({folder.path()}); }),
            "data: " + folder.path().string() + " must hold text files; got a folder with 2 files, none of them text");
}

TEST(Text, CountsEachFileOnce) {
  const TemporaryFolder folder;
  const fs::path a = folder.write("a.txt", "same");
  folder.write("b.txt", "same");
  folder.write("c.txt", "other");
  fs::create_symlink(a, folder / "link.txt");
  EXPECT_THAT(names_of(read_text({a, a, folder.path()}), folder.path()), ElementsAre("a.txt", "c.txt"));
}

TEST(Text, ReadsPipes) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "through a pipe"; });
  const Text text = read_text({pipe});
  writer.join();
  EXPECT_EQ(text.bytes, "through a pipe");
}

TEST(Text, ProjectHoldsSourcesOnly) {
  const TemporaryFolder folder;
  folder.write("README.md", "readme");
  folder.write("CMakeLists.txt", "cmake");
  folder.write("autograd/a.h", "header");
  folder.write("examples/run", "script");
  folder.write("tests/golden/big.json", "[1, 2, 3]");
  folder.write("build/dev/x.txt", "built");
  folder.write(".git/config", "git");
  EXPECT_THAT(names_of(read_project(folder.path()), folder.path()),
              ElementsAre("CMakeLists.txt", "README.md", "autograd/a.h", "examples/run"));
}

TEST(Text, FindsTheProject) {
  const TemporaryFolder folder;
  folder.write("README.md", "readme");
  fs::create_directories(folder / "autograd");
  fs::create_directories(folder / "build/bin");
  EXPECT_EQ(find_project(folder.path()), folder.path());
  const fs::path before = fs::current_path();
  fs::current_path(folder / "build/bin");
  const fs::path found = find_project("/nowhere");
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(found / "autograd"));
}

TEST(Text, ReadsItsOwnProject) {
  const Text text = read_project(CAPSTAN_SOURCE_DIR);
  EXPECT_GT(text.size(), 50'000);
  EXPECT_THAT(names_of(text, CAPSTAN_SOURCE_DIR), testing::Contains("examples/train_gpt/text.h"));
  EXPECT_EQ(hash_of(text), hash_of(read_project(CAPSTAN_SOURCE_DIR)));
}

TEST(Text, HashesSizesAndBytes) {
  Text one, two, moved;
  append(one, "a", "abc");
  append(two, "a", "ab");
  append(two, "b", "c");
  append(moved, "elsewhere/a", "abc");
  EXPECT_NE(hash_of(one), hash_of(two));
  EXPECT_EQ(hash_of(one), hash_of(moved));
  EXPECT_EQ(hash_of(Text{}), "cbf29ce484222325");
  require_same_data(one, hash_of(moved), 3);
  EXPECT_EQ(
      error_of([&] { require_same_data(one, "0123456789abcdef", 4); }),
      "resume: the text must be the one that the checkpoint was trained on, 4 bytes with hash 0123456789abcdef; got "
      "3 bytes with hash " +
          hash_of(one) + "; bring the old files back, or start anew without --resume");
}

}  // namespace
}  // namespace capstan::train_gpt
