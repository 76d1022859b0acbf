// Tests of schedule.h: hand values and borders. Reference tables: golden_optim_test.cpp.
#include <capstan/nn/schedule.h>
#include <gtest/gtest.h>

#include <cmath>

namespace capstan::nn {
namespace {

TEST(Schedule, HandValues) {
  const CosineWithWarmup rate{.peak = 1, .lowest = 0, .warmup = 2, .steps = 6};
  EXPECT_EQ(rate(1), 0.5);
  EXPECT_EQ(rate(2), 1.0);
  EXPECT_NEAR(rate(3), 0.5 + std::sqrt(0.5) / 2, 1e-15);
  EXPECT_NEAR(rate(4), 0.5, 1e-15);
  EXPECT_NEAR(rate(5), 0.5 - std::sqrt(0.5) / 2, 1e-15);
  EXPECT_EQ(rate(6), 0.0);
  EXPECT_EQ(rate(7), 0.0);
}

TEST(Schedule, Borders) {
  const CosineWithWarmup no_warmup{.peak = 2, .lowest = 1, .warmup = 0, .steps = 2};
  EXPECT_NEAR(no_warmup(1), 1.5, 1e-15);
  EXPECT_EQ(no_warmup(2), 1.0);
  const CosineWithWarmup all_warmup{.peak = 2, .lowest = 1, .warmup = 4, .steps = 4};
  EXPECT_EQ(all_warmup(4), 2.0);
  EXPECT_EQ(all_warmup(5), 1.0);
  const CosineWithWarmup single{.peak = 2, .lowest = 1, .warmup = 0, .steps = 1};
  EXPECT_EQ(single(1), 1.0);
  EXPECT_EQ(single(0), 2.0);
  EXPECT_EQ(all_warmup(0), 0.0);
}

TEST(Schedule, FallsMonotonicallyBetweenPeakAndLowest) {
  const CosineWithWarmup rate{.peak = 3e-3, .lowest = 3e-4, .warmup = 100, .steps = 1000};
  for (std::int64_t step = 100; step < 1000; ++step) {
    EXPECT_GT(rate(step), rate(step + 1));
    EXPECT_GE(rate(step + 1), 3e-4);
  }
}

}  // namespace
}  // namespace capstan::nn
