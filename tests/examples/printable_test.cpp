#include "train_gpt/printable.h"

#include <gtest/gtest.h>

namespace capstan::train_gpt {
namespace {

TEST(Printable, KeepsValidText) {
  for (const std::string text : {"", "plain\n\ttext", "秋水共长天一色", "é ß €", "😀"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatATerminalMayObey) {
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("a\rb\x7f"), "a\\x0db\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // U+009B, the one-character form of ESC [
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
}

TEST(Printable, EscapesInvalidBytes) {
  EXPECT_EQ(printable("abc\xff"), "abc\\xff");
  EXPECT_EQ(printable("\xe5\xa4"), "\\xe5\\xa4");                    // cut off at the end
  EXPECT_EQ(printable("\xe5\xa4x"), "\\xe5\\xa4x");                  // cut off in the middle
  EXPECT_EQ(printable("\xa9天"), "\\xa9天");                         // begins inside a character
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // too long
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a UTF-16 pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

TEST(Printable, AnyBytesAreStoredAsTextAndReadBack) {
  EXPECT_EQ(stored_text("/tmp/秋 \\x41\n"), "/tmp/秋 \\x41\n");
  EXPECT_EQ(stored_text("/a\\/caf\xe9\n/秋\n"), "bytes:/a\\x5c/caf\\xe9\n/秋\n");
  std::string all;
  for (int c = 255; c >= 0; --c) all += static_cast<char>(c);
  for (const std::string& bytes : {std::string("bytes:\\x41"), std::string("bytes:"), all, all + all}) {
    const std::string text = stored_text(bytes);
    for (std::size_t i = 0; i < text.size(); i += utf8_length(text.substr(i))) ASSERT_NE(utf8_length(text.substr(i)), 0u);
    EXPECT_EQ(bytes_of_stored(text), bytes);
  }
}

TEST(Printable, MeasuresCharacters) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a天"), 1u);
  EXPECT_EQ(utf8_length("é"), 2u);
  EXPECT_EQ(utf8_length("天a"), 3u);
  EXPECT_EQ(utf8_length("😀"), 4u);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4u);
  EXPECT_EQ(utf8_length("\x80"), 0u);
}

}  // namespace
}  // namespace capstan::train_gpt
