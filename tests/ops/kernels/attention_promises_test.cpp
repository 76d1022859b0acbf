// What attention in tiles promises to the bit: planted NaN that nobody sees, causality, the same bytes on any number of threads.
#include "ops/kernels/attention_case.h"

namespace capstan::kernels::test {
namespace {

template <class T>
class AttentionPromises : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionPromises, Floats);

TYPED_TEST(AttentionPromises, WhatNobodySeesIsNotMet) {
  using T = TypeParam;
  for_each_target([] {
    Random random(6);
    for (int run = 0; run < 40; ++run) {
      Attention<T> a(random_sizes(random, run % 4 == 0 ? 14 : 120), random, run % 2 == 0);
      randomize_band(a, random);
      if (run % 4 != 0) randomize_terms(a, random);
      a.bias_gradient = run % 8 != 0;
      const std::string plain = by_tiles(a).bytes();
      for (const double planted : {NAN, INFINITY, -INFINITY}) {
        const Sizes& s = a.s;
        for (Index b = 0; b < s.batch; ++b) {
          for (Index h = 0; h < s.key_heads; ++h)
            for (Index j = 0; j < s.keys; ++j) {
              if (a.seen(b, h, j)) continue;
              const Index row = (b * s.key_heads + h) * s.keys + j;
              for (Index d = 0; d < s.width; ++d) a.k[row * s.width + d] = static_cast<T>(planted);
              for (Index d = 0; d < s.value_width; ++d) a.v[row * s.value_width + d] = static_cast<T>(planted);
            }
          for (Index h = 0; h < s.heads; ++h)
            for (Index i = 0; i < s.queries; ++i) {
              if (a.alive(b, h, i)) continue;
              const Index row = (b * s.heads + h) * s.queries + i;
              for (Index d = 0; d < s.width; ++d) a.q[row * s.width + d] = static_cast<T>(planted);
              for (Index d = 0; d < s.value_width; ++d) a.dout[row * s.value_width + d] = static_cast<T>(planted);
            }
        }
        EXPECT_TRUE(by_tiles(a).bytes() == plain) << run << " " << planted;
      }
    }
  });
}

TYPED_TEST(AttentionPromises, NaNThatIsSeenReachesWhoSeesIt) {
  using T = TypeParam;
  Random random(7);
  Attention<T> a({1, 1, 1, 100, 100, 4, 4}, random);
  a.high = 0;
  a.k[40 * 4] = static_cast<T>(NAN);
  const Results<T> r = by_tiles(a);
  for (Index i = 0; i < 100; ++i) EXPECT_EQ(std::isnan(r.out[i * 4]), i >= 40) << i;
}

TYPED_TEST(AttentionPromises, LaterKeysDoNotReachEarlierQueries) {
  using T = TypeParam;
  Random random(8);
  Attention<T> a({1, 2, 1, 150, 150, 16, 16}, random);
  a.high = 0;
  const std::string before = by_tiles(a).out.bytes();
  for (Index d = 0; d < 16; ++d) a.k[149 * 16 + d] += 3, a.v[149 * 16 + d] -= 3;
  const std::string after = by_tiles(a).out.bytes();
  const std::size_t row = 16 * sizeof(T);
  for (const std::size_t head : {0, 1}) {
    const std::size_t start = head * 150 * row;
    EXPECT_TRUE(before.substr(start, 149 * row) == after.substr(start, 149 * row));
    EXPECT_FALSE(before.substr(start + 149 * row, row) == after.substr(start + 149 * row, row));
  }
}

TYPED_TEST(AttentionPromises, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(9);
  for (const Sizes& s :
       {Sizes{2, 8, 4, 150, 150, 16, 16}, Sizes{1, 2, 1, 400, 500, 32, 24}, Sizes{1, 4, 4, 260, 260, 16, 16}}) {
    Attention<T> a(s, random);
    a.high = s.keys - s.queries;
    expect_same_bytes(Region::attention, [&] { return by_tiles(a).bytes(); });
    randomize_terms(a, random);
    expect_same_bytes(Region::attention, [&] { return by_tiles(a).bytes(); });
  }
}

}  // namespace
}  // namespace capstan::kernels::test
