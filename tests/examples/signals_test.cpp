#include "train_gpt/signals.h"

#include <gtest/gtest.h>

#include <capstan/autograd/error.h>

namespace capstan::train_gpt {
namespace {

TEST(StopSignals, FirstOneSetsAFlag) {
  for (const int number : {SIGINT, SIGTERM}) {
    const StopSignals stop;
    EXPECT_FALSE(stop.stop_requested());
    EXPECT_EQ(stop.signal(), 0);
    std::raise(number);
    EXPECT_TRUE(stop.stop_requested());
    EXPECT_EQ(stop.signal(), number);
  }
}

TEST(StopSignalsDeathTest, SecondOneEndsAtOnce) {
  const auto twice = [](int first, int second) {
    const StopSignals stop;
    std::raise(first);
    std::raise(second);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGINT, SIGTERM), testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(twice(SIGTERM, SIGINT), testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignals, PutsHandlersBack) {
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  {
    const StopSignals stop;
    sigaction(SIGINT, nullptr, &after);
    EXPECT_NE(after.sa_handler, before.sa_handler);
  }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopSignals, OnlyOneAtATime) {
  const StopSignals stop;
  EXPECT_THROW(StopSignals(), Error);
}

}  // namespace
}  // namespace capstan::train_gpt
