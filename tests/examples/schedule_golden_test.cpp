// The schedule against the reference tables of tests/golden/optimizers.json that have its formula.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"
#include "train_gpt/schedule.h"

namespace capstan::train_gpt {
namespace {

TEST(Schedule, FollowsTheReferenceTables) {
  int run = 0, other_warmup = 0;
  for (const test::GoldenCase& golden : test::golden_cases("optimizers")) {
    if (golden.op() != "cosine_with_warmup") continue;
    const auto& o = golden.options;
    const Schedule rate{.peak = o["peak"], .lowest = o["floor"], .warmup = o["warmup"], .steps = o["total"]};
    // The tables begin with step 0, the schedule with step 1. "to_floor" warms up in warmup + 1 steps: it has the
    // schedule's values from the end of the warm-up on.
    const bool same_warmup = o["variant"] == "to_zero";
    other_warmup += !same_warmup;
    ++run;
    const std::vector<double> table = golden.outputs.at("lr").to_doubles();
    const std::size_t first = same_warmup ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(rate.warmup, 1));
    for (std::size_t step = first; step < table.size(); ++step)
      EXPECT_NEAR(rate(static_cast<std::int64_t>(step)), table[step], 1e-10 * table[step] + 1e-16)
          << golden.name << " " << step;
  }
  EXPECT_EQ(run, 4);
  EXPECT_EQ(other_warmup, 2);
}

}  // namespace
}  // namespace capstan::train_gpt
