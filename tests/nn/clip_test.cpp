// Tests of clip_gradient_norm (optim.h).
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/states.h"
#include "support/two.h"

namespace capstan::nn {
namespace {

using test::addresses;
using test::difference;
using test::error_of;
using test::expect_exactly;
using test::same_bits;
using test::Two;
using test::two;

TEST(ClipGradientNorm, NeitherOverNorUnderflows) {  // CASES 53
  std::vector<Tensor> gradients(100);
  for (Tensor& x : gradients) x = full({}, 1e20);
  EXPECT_NEAR(clip_gradient_norm(gradients, 1) / 1e21, 1, 1e-7);
  for (const Tensor& x : gradients) EXPECT_NEAR(x.item(), 0.1, 1e-8);
  EXPECT_NEAR(clip_gradient_norm(gradients, 2), 1, 1e-7);  // below the limit: unchanged
  for (const Tensor& x : gradients) EXPECT_NEAR(x.item(), 0.1, 1e-8);
}

TEST(ClipGradientNorm, HoldsForSubnormalAndHugeNumbers) {
  for (const double magnitude : {5e-324, 1e-310, 1e-200, 1e200, 4e307}) {
    Two gradients = two(magnitude, magnitude);
    const Two before = gradients;
    const double norm = clip_gradient_norm(gradients, std::numeric_limits<double>::max());
    EXPECT_NEAR(norm / (magnitude * std::sqrt(7)), 1, magnitude < 1e-300 ? 0.2 : 1e-14) << magnitude;
    EXPECT_EQ(difference(gradients, before), "") << magnitude;
  }
}

TEST(ClipGradientNorm, UpdatesInPlaceAndLeavesOthersAlone) {
  Two gradients = two(3, 0);
  const std::vector<const void*> before = addresses(gradients);
  EXPECT_EQ(clip_gradient_norm(gradients, 3), 6);
  EXPECT_EQ(addresses(gradients), before);
  const Two copy = gradients;
  EXPECT_NEAR(clip_gradient_norm(gradients, 1), 3, 1e-6);
  EXPECT_NEAR(copy.w.at({0, 0}), 1.5, 1e-6);
  EXPECT_NEAR(gradients.w.at({0, 0}), 0.5, 1e-6);
}

TEST(ClipGradientNorm, OfZerosIsZero) {
  Two gradients = two(0, 0);
  EXPECT_EQ(clip_gradient_norm(gradients, 1), 0);
  expect_exactly(gradients.b, {3}, {0, 0, 0});
}

TEST(ClipGradientNorm, RefusesWhatIsNotFiniteAndWritesNothing) {  // CASES 53
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto refused = [](Two gradients, double limit) {
    const Two before = gradients;
    std::string sentence = error_of([&] { clip_gradient_norm(gradients, limit); });
    EXPECT_TRUE(same_bits(gradients.w, before.w) && same_bits(gradients.b, before.b));
    return sentence;
  };
  const std::string not_finite = "clip_gradient_norm: gradients must be finite; got ";
  EXPECT_EQ(refused(two(1, inf), 1), not_finite + "inf; nothing was changed");
  EXPECT_EQ(refused(two(-inf, 1), 1), not_finite + "inf; nothing was changed");
  EXPECT_EQ(refused(two(std::nan(""), 1), 1), not_finite + "nan; nothing was changed");
  EXPECT_EQ(refused(two(1e308, 1e308), 1), "clip_gradient_norm: the norm must be finite; got inf; nothing was changed");
  EXPECT_EQ(refused(two(1, 1), 0), "clip_gradient_norm: max_norm must be positive; got 0");
  EXPECT_EQ(refused(two(1, 1), -1), "clip_gradient_norm: max_norm must be positive; got -1");
  EXPECT_EQ(refused(two(1, 1), std::nan("")), "clip_gradient_norm: max_norm must be positive; got nan");
}

}  // namespace
}  // namespace capstan::nn
