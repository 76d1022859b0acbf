// Dropout: which elements, their scale, the same ones everywhere, statistics, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/dropout.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::test {
namespace {

constexpr Key key{.seed = 9, .stream = 4};

TEST(Dropout, DocumentedValue) { expect_exactly(dropout(tensor({1, 2, 3, 4}), 0.5, Key{3, 0}), {4}, {2, 0, 6, 8}); }

TEST(Dropout, KeepsByTheBitsOfKeyAndIndex) {
  const Tensor x = normal(Key{.seed = 1}, {3, 7, 5}, 0, 1, DType::f64);
  const Keep keep(key, 0.3);
  std::vector<double> expected = x.to_doubles();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = keep(static_cast<Index>(i)) ? expected[i] * (1 / 0.7) : 0;
  expect_exactly(dropout(x, 0.3, key), {3, 7, 5}, expected);
}

TEST(Dropout, DropsTheSameElementsInF32AndF64) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::vector<double> narrow = dropout(ones({1000}), p, key).to_doubles();
    const std::vector<double> wide = dropout(ones({1000}, DType::f64), p, key).to_doubles();
    for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i] == 0, wide[i] == 0) << i;
  }
}

TEST(Dropout, NeitherThreadsNorMemoryChangeABit) {
  const Tensor x = normal(Key{.seed = 1}, {300, 200});
  const Tensor moved = transpose(transpose(x).dense());
  ASSERT_FALSE(moved.contiguous());
  const int before = kernels::thread_count();
  kernels::set_thread_count(1);
  const Tensor expected = dropout(x, 0.3, key);
  for (const int threads : {1, 2, 4}) {
    kernels::set_thread_count(threads);
    const std::uint64_t regions = kernels::parallel_regions(kernels::Region::random);
    EXPECT_TRUE(same_bits(dropout(x, 0.3, key), expected)) << threads;
    EXPECT_TRUE(same_bits(dropout(moved, 0.3, key), expected)) << threads;
    EXPECT_EQ(kernels::parallel_regions(kernels::Region::random) > regions, threads > 1);
  }
  kernels::set_thread_count(before);
}

TEST(Dropout, KeepsTheMeanAndTheShare) {
  constexpr Index count = 200000;
  for (const double p : {0.1, 0.5, 0.8}) {
    const Tensor y = dropout(ones({count}, DType::f64), p, key);
    double dropped = 0;
    for (const double value : y.to_doubles()) dropped += value == 0;
    // Five standard deviations of a binomial share.
    const double deviation = std::sqrt(p * (1 - p) / count);
    EXPECT_NEAR(dropped / count, p, 5 * deviation);
    EXPECT_NEAR(mean(y).item(), 1, 5 * deviation / (1 - p));
  }
}

TEST(Dropout, ZeroIsTheIdentity) {
  Tape tape;
  const Tensor x = tape.watch(normal(Key{.seed = 1}, {4}));
  const Tensor y = dropout(x, 0, key);
  EXPECT_TRUE(same_bits(y, x));
  expect_exactly(tape.backward(y, ones({4})).of(x), {4}, {1, 1, 1, 1});
}

TEST(Dropout, OneKeyIsOneMaskAndAnotherAnother) {
  const Tensor x = ones({64});
  EXPECT_TRUE(same_bits(dropout(x, 0.5, key), dropout(x, 0.5, key)));
  EXPECT_FALSE(same_bits(dropout(x, 0.5, key), dropout(x, 0.5, Key{key.seed, key.stream + 1})));
}

TEST(Dropout, TheGradientHasTheSameMaskAndNothingIsKept) {
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor x = tape.watch(normal(Key{.seed = 1}, {50}, 0, 1, DType::f64));
    const Tensor y = dropout(x, 0.4, key);
    EXPECT_EQ(tape.saved_bytes(), 0);
    const Tensor up = normal(Key{.seed = 2}, {50}, 0, 1, DType::f64);
    const Tensor dx = tape.backward(y, up, {.create_graph = create_graph}).of(x).detach();
    EXPECT_TRUE(same_bits(dx, dropout(up, 0.4, key)));
  }
}

TEST(Dropout, WhatIsDroppedReachesNothing) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Keep keep(key, 0.5);
  const std::vector<double> y = dropout(full({32}, nan, DType::f64), 0.5, key).to_doubles();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), keep(static_cast<Index>(i)));
}

TEST(Dropout, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { dropout(ones({2}), 1, key); }), "dropout: p must be in [0, 1); got 1");
  EXPECT_EQ(error_of([] { dropout(ones({2}), -0.25, key); }), "dropout: p must be in [0, 1); got -0.25");
  EXPECT_EQ(error_of([] { dropout(ones({2}), std::nan(""), key); }), "dropout: p must be in [0, 1); got nan");
  EXPECT_EQ(error_of([] { dropout(ones({2}, DType::i32), 0.5, key); }),
            "dropout: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([] { dropout(Tensor(), 0.5, key); }),
            "dropout: x must hold a value; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan::test
