#include "train_gpt/entropy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace capstan::train_gpt {
namespace {

Entropies of(std::initializer_list<std::string_view> files) {
  Text text;
  for (const auto content : files) append(text, "x", content);
  return entropies(text);
}

TEST(Entropy, HandValues) {
  EXPECT_NEAR(of({"abab"}).unigram, std::log(2.0), 1e-15);
  EXPECT_EQ(of({"abab"}).bigram, 0.0);
  EXPECT_EQ(of({"aaaa"}).unigram, 0.0);
  // aab: a 2/3, b 1/3. Pairs aa, ab: after a, either with probability 1/2.
  EXPECT_NEAR(of({"aab"}).unigram, std::log(3.0) - 2.0 / 3 * std::log(2.0), 1e-15);
  EXPECT_NEAR(of({"aab"}).bigram, std::log(2.0), 1e-15);
  // aabba: pairs aa, ab, bb, ba: ln 2 after both.
  EXPECT_NEAR(of({"aabba"}).bigram, std::log(2.0), 1e-15);
  // abacaba: after a: b, c, b; after b: a, a; after c: a. (3/6) (ln 3 − (2/3) ln 2).
  EXPECT_NEAR(of({"abacaba"}).bigram, 0.5 * (std::log(3.0) - 2.0 / 3 * std::log(2.0)), 1e-15);
}

TEST(Entropy, PairsStayInsideFiles) {
  EXPECT_NEAR(of({"ab", "ab"}).unigram, std::log(2.0), 1e-15);
  EXPECT_EQ(of({"ab", "ac"}).bigram, std::log(2.0));
  EXPECT_EQ(of({"aa", "b"}).bigram, 0.0);
  EXPECT_EQ(of({"a", "b"}).bigram, 0.0);
}

TEST(Entropy, BytesAboveAscii) {
  std::string all;
  for (int i = 1; i < 256; ++i) all += static_cast<char>(i);
  Text text;
  text.bytes = all;
  text.files.push_back({"all", 0, 255});
  EXPECT_NEAR(entropies(text).unigram, std::log(255.0), 1e-13);
  EXPECT_EQ(entropies(text).bigram, 0.0);
  EXPECT_NEAR(of({"天"}).unigram, std::log(3.0), 1e-15);
  EXPECT_EQ(entropies(Text{}).unigram, 0.0);
}

}  // namespace
}  // namespace capstan::train_gpt
