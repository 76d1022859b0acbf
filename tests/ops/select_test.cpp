// ops/select.h: what a selection lets through, the branches that are not taken, conversions, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::expect_near;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }

TEST(Where, SelectsForEveryDtype) {
  const Tensor condition = tensor({1, 0}, DType::boolean);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean}) {
    const Tensor y = where(condition, ones({2}, dtype), zeros({2}, dtype));
    expect_exactly(y, {2}, {1, 0});
    EXPECT_EQ(y.dtype(), dtype);
  }
}

TEST(Where, BroadcastsAllThree) {
  const Tensor condition = reshape(tensor({1, 0}, DType::boolean), {2, 1});
  expect_exactly(where(condition, f64({1, 2, 3}), f64(9)), {2, 3}, {1, 2, 3, 9, 9, 9});
  expect_exactly(where(condition, f64({1, 2, 3}), 0.5), {2, 3}, {1, 2, 3, 0.5, 0.5, 0.5});
  expect_exactly(where(condition, 0.5, f64({1, 2, 3})), {2, 3}, {0.5, 0.5, 0.5, 1, 2, 3});
}

TEST(Where, WhatIsNotTakenReachesNeitherValueNorGradient) {
  Tape tape;
  const Tensor a = tape.watch(f64({1, nan})), b = tape.watch(f64({infinity, 2}));
  const Tensor y = where(tensor({1, 0}, DType::boolean), a, b);
  expect_exactly(y, {2}, {1, 2});
  const Gradients g = tape.backward(y, f64({3, 4}));
  expect_exactly(g.of(a), {2}, {3, 0});
  expect_exactly(g.of(b), {2}, {0, 4});
}

TEST(Where, ANaNCotangentStaysOnItsSide) {
  Tape tape;
  const Tensor a = tape.watch(f64({1, 1})), b = tape.watch(f64({2, 2}));
  const Gradients g = tape.backward(where(tensor({1, 0}, DType::boolean), a, b), f64({nan, 5}));
  expect_exactly(g.of(a), {2}, {nan, 0});
  expect_exactly(g.of(b), {2}, {0, 5});
}

TEST(Where, AStretchedSideGathersItsGradient) {
  Tape tape;
  const Tensor condition = tensor({{1, 0, 1}, {1, 1, 0}}, DType::boolean);
  const Tensor a = tape.watch(f64({10, 20, 30})), b = tape.watch(f64(7));
  const Gradients g = tape.backward(sum(where(condition, a, b)));
  expect_exactly(g.of(a), {3}, {2, 1, 1});
  expect_exactly(g.of(b), {}, {2});
}

// The documented limit: the rule of a branch that was not taken still runs, with a cotangent of 0.
TEST(Where, SelectingOutsideAnInfiniteSlopeGivesNaNAndInsideGivesZero) {
  const Tensor rows = f64({{1, 2}, {3, 4}, {0, 0}});
  const auto outside = [](const Tensor& x) {
    const Tensor r = sum(x * x, 1);
    return sum(where(r > 0.5, sqrt(r), 1.0));
  };
  const auto inside = [](const Tensor& x) {
    const Tensor r = sum(x * x, 1);
    const Tensor taken = r > 0.5;
    return sum(where(taken, sqrt(where(taken, r, 1.0)), 1.0));
  };
  const double r5 = std::sqrt(5.0);
  EXPECT_NEAR(outside(rows).item(), r5 + 5 + 1, 1e-14);
  EXPECT_NEAR(inside(rows).item(), r5 + 5 + 1, 1e-14);
  expect_near(grad(rows, inside), {3, 2}, {1 / r5, 2 / r5, 0.6, 0.8, 0, 0}, 1e-15);
  const std::vector<double> limit = grad(rows, outside).to_doubles();
  EXPECT_NEAR(limit[0], 1 / r5, 1e-15);
  EXPECT_TRUE(std::isnan(limit[4]));
  EXPECT_TRUE(std::isnan(limit[5]));
}

TEST(Where, AnOverflowThatIsNotTakenLeavesTheOtherSideAlone) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto f = [](const Tensor& a) {
      const Tensor low = a <= 0.0;
      return where(low, exp(where(low, a, 0.0)), 1.0 + a);
    };
    const auto [value, slope] = value_and_grad(tensor(100, dtype), f);
    EXPECT_EQ(value.item(), 101);
    EXPECT_EQ(slope.item(), 1);
  }
  // exp(100) is infinite in f32, and so is its slope: 0 · ∞ would be NaN. The same for powers.
  for (const auto overflow : {+[](const Tensor& a) { return exp(a); }, +[](const Tensor& a) { return pow(a, 30); }}) {
    const auto outside = [&](const Tensor& a) { return where(a <= 0.0, overflow(a), 1.0 + a); };
    const auto [value, slope] = value_and_grad(tensor(100), outside);
    EXPECT_EQ(value.item(), 101);
    EXPECT_EQ(slope.item(), 1);
    EXPECT_EQ(grad(tensor(100), [&](const Tensor& a) { return grad(a, outside) * a; }).item(), 1);
  }
  // Taken, an overflow says so.
  EXPECT_TRUE(std::isinf(grad(tensor(100), [](const Tensor& a) { return exp(a); }).item()));
}

TEST(Where, ErrorsNameWhatMustHold) {
  const Tensor t = ones({2}, DType::boolean), f = ones({2}), d = ones({2}, DType::f64);
  EXPECT_EQ(error_of([&] { where(f, f, f); }), "where: condition must be bool; got f32; cast or compare it first");
  EXPECT_EQ(error_of([&] { where(t, f, d); }), "where: a and b must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error_of([&] { where(t, f, ones({3})); }),
            "where: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2] and [3]");
  EXPECT_EQ(error_of([&] { where(t, Tensor(), 1.0); }),
            "where: a must hold a value; got an empty handle; assign a tensor to it first");
}

// ---- masked_fill ----------------------------------------------------------------------------------------------------

TEST(MaskedFill, TrueMeansReplaced) {
  expect_exactly(masked_fill(f64({1, 2, 3}), tensor({0, 1, 0}, DType::boolean), 9), {3}, {1, 9, 3});
  const Tensor rows = reshape(tensor({1, 0}, DType::boolean), {2, 1});
  expect_exactly(masked_fill(f64({{1, 2}, {3, 4}}), rows, -infinity), {2, 2}, {-infinity, -infinity, 3, 4});
  expect_exactly(masked_fill(tensor({1, 2}, DType::i32), tensor({0, 1}, DType::boolean), -7), {2}, {1, -7});
  EXPECT_EQ(masked_fill(ones({2}), tensor({0, 1}, DType::boolean), 0.5).dtype(), DType::f32);
}

TEST(MaskedFill, WhatIsReplacedReachesNothing) {
  Tape tape;
  const Tensor x = tape.watch(f64({nan, 2, infinity, 4}));
  const Tensor filled = masked_fill(x, tensor({1, 0, 1, 0}, DType::boolean), 3);
  const Tensor y = filled * filled;
  expect_exactly(y, {4}, {9, 4, 9, 16});
  for (const bool create_graph : {true, false})
    expect_exactly(tape.backward(sum(y), {.keep = true, .create_graph = create_graph}).of(x).detach(), {4},
                   {0, 4, 0, 8});
  // A NaN cotangent of a replaced element stays outside too.
  Tape other;
  const Tensor z = other.watch(f64({1, 2}));
  expect_exactly(other.backward(masked_fill(z, tensor({1, 0}, DType::boolean), 0), f64({nan, 5})).of(z), {2}, {0, 5});
}

TEST(MaskedFill, ErrorsNameWhatMustHold) {
  const Tensor x = ones({2, 3}), mask = ones({3}, DType::boolean);
  EXPECT_EQ(error_of([&] { masked_fill(x, x, 0); }),
            "masked_fill: mask must be bool; got f32; cast or compare it first");
  EXPECT_EQ(error_of([&] { masked_fill(x, ones({2}, DType::boolean), 0); }),
            "masked_fill: mask must broadcast to x's shape; got mask [2] and x [2, 3]");
  EXPECT_EQ(error_of([&] {
              masked_fill(ones({3}), ones({2, 3}, DType::boolean), 0);
            }),
            "masked_fill: mask must broadcast to x's shape; got mask [2, 3] and x [3]");
  EXPECT_EQ(error_of([&] { masked_fill(Tensor(), mask, 0); }),
            "masked_fill: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { masked_fill(x, Tensor(), 0); }),
            "masked_fill: mask must hold a value; got an empty handle; assign a tensor to it first");
}

// ---- cast -----------------------------------------------------------------------------------------------------------

TEST(Cast, ValuesByHand) {
  const Tensor x = f64({-1.7, 0, 0.4, 2.9, 3e9, -3e9, nan});
  expect_exactly(cast(x, DType::i32), {7}, {-1, 0, 0, 2, 2147483647.0, -2147483648.0, 0});
  expect_exactly(cast(x, DType::boolean), {7}, {1, 0, 1, 1, 1, 1, 1});
  expect_exactly(cast(f64(0.1), DType::f32), {}, {static_cast<double>(0.1f)});
  expect_exactly(cast(tensor({-2, 3}, DType::i32), DType::f32), {2}, {-2, 3});
  expect_exactly(cast(transpose(f64({{1, 2}, {3, 4}})), DType::i32), {2, 2}, {1, 3, 2, 4});
}

TEST(Cast, GradientsFlowBetweenFloatsAtEveryOrder) {
  const auto cube = [](const Tensor& x) {
    const Tensor narrow = cast(x, DType::f32);
    return cast(narrow * narrow * narrow, DType::f64);
  };
  const auto [value, slope] = value_and_grad(f64(2), cube);
  EXPECT_EQ(value.item(), 8);
  EXPECT_EQ(slope.item(), 12);
  EXPECT_EQ(slope.dtype(), DType::f64);
  EXPECT_EQ(grad(f64(2), [&](const Tensor& x) { return grad(x, cube); }).item(), 12);
}

TEST(Cast, ToTheSameDtypeIsTheTensorItself) {
  Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  const Index before = tape.size();
  EXPECT_TRUE(cast(x, DType::f64).recorded());
  EXPECT_EQ(tape.size(), before);
  EXPECT_FALSE(cast(x, DType::i32).recorded());
  EXPECT_EQ(tape.size(), before);
}

}  // namespace
}  // namespace capstan
