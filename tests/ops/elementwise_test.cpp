// ops/elementwise.h: values, gradients worked out by hand, errors. Derivatives in general are checked by the samples.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
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

TEST(Elementwise, ArithmeticByHand) {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5, 6}, {7, 8}});
  expect_exactly(a + b, {2, 2}, {6, 8, 10, 12});
  expect_exactly(a - b, {2, 2}, {-4, -4, -4, -4});
  expect_exactly(a * b, {2, 2}, {5, 12, 21, 32});
  expect_exactly(b / a, {2, 2}, {5, 3, 7.f / 3.f, 2});
  expect_exactly(-a, {2, 2}, {-1, -2, -3, -4});
  EXPECT_EQ((a + b).dtype(), DType::f32);
  EXPECT_EQ((f64(1) + f64(2)).dtype(), DType::f64);
}

TEST(Elementwise, NumbersStandOnEitherSide) {
  const Tensor x = f64({1, 4});
  expect_exactly(x + 1.0, {2}, {2, 5});
  expect_exactly(1.0 + x, {2}, {2, 5});
  expect_exactly(x - 1.0, {2}, {0, 3});
  expect_exactly(1.0 - x, {2}, {0, -3});
  expect_exactly(x * 3, {2}, {3, 12});
  expect_exactly(3 * x, {2}, {3, 12});
  expect_exactly(x / 3.0, {2}, {1 / 3.0, 4 / 3.0});
  expect_exactly(2.0 / x, {2}, {2, 0.5});
  expect_exactly(scale(f64(3), 2, 1), {}, {7});
}

TEST(Elementwise, BroadcastsAsNumPyDoes) {
  expect_exactly(f64({{1}, {2}}) * f64({3, 4, 5}), {2, 3}, {3, 4, 5, 6, 8, 10});
  expect_exactly(f64(10) - f64({1, 2}), {2}, {9, 8});
  expect_exactly(add(zeros({2, 1, 2}, DType::f64), f64({{1, 2}, {3, 4}})), {2, 2, 2}, {1, 2, 3, 4, 1, 2, 3, 4});
  expect_exactly(zeros({4, 0}) + zeros({4, 1}), {4, 0}, {});
  expect_exactly(zeros({1, 0}) * zeros({3, 1}), {3, 0}, {});
}

TEST(Elementwise, WholeNumbersWrapAndAreNotRecorded) {
  const Tensor a = tensor({2147483647, 3}, DType::i32), b = tensor({1, 2}, DType::i32);
  expect_exactly(a + b, {2}, {-2147483648.0, 5});
  expect_exactly(a - b, {2}, {2147483646, 1});
  expect_exactly(a * b, {2}, {2147483647, 6});
  expect_exactly(-a, {2}, {-2147483647.0, -3});
  EXPECT_FALSE((a + b).recorded());
}

TEST(Elementwise, FunctionsByHand) {
  const double e = std::exp(1.0), pi = std::acos(-1.0);
  expect_near(exp(f64({0, 1, -1})), {3}, {1, e, 1 / e}, 1e-15);
  expect_near(log(f64({1, e, 10})), {3}, {0, 1, std::log(10.0)}, 1e-15);
  expect_near(tanh(f64({0, 0.5, -2})), {3}, {0, std::tanh(0.5), std::tanh(-2.0)}, 1e-15);
  expect_exactly(sqrt(f64({0, 4, 2.25})), {3}, {0, 2, 1.5});
  expect_near(sin(f64({0, pi / 2, pi / 6})), {3}, {0, 1, 0.5}, 1e-15);
  expect_near(cos(f64({0, pi, pi / 3})), {3}, {1, -1, 0.5}, 1e-15);
  expect_near(sin(f64({-100, 1e6, 1e15})), {3}, {std::sin(-100.0), std::sin(1e6), std::sin(1e15)}, 1e-15);
  expect_near(cos(f64({-100, 1e6, 1e15})), {3}, {std::cos(-100.0), std::cos(1e6), std::cos(1e15)}, 1e-15);
  expect_near(erf(f64({0, 0.5, -3})), {3}, {0, std::erf(0.5), std::erf(-3.0)}, 1e-15);
  expect_near(erfc(f64({0, 0.5, 10})), {3}, {1, std::erfc(0.5), std::erfc(10.0)}, 1e-15);
  EXPECT_NEAR(erfc(f64(10)).item() / 2.0884875837625447e-45, 1, 1e-12);
  expect_exactly(clamp(f64({-3, 0.5, 7}), -1, 2), {3}, {-1, 0.5, 2});
  expect_exactly(clamp(f64({-3, 7}), -infinity, 2), {2}, {-3, 2});
}

TEST(Elementwise, PowersByHand) {
  const Tensor x = f64({-2, -1, 0, 0.5, 3});
  expect_exactly(pow(x, 0), {5}, {1, 1, 1, 1, 1});
  expect_exactly(pow(x, 1), {5}, {-2, -1, 0, 0.5, 3});
  expect_exactly(pow(x, 2), {5}, {4, 1, 0, 0.25, 9});
  expect_exactly(pow(x, 3), {5}, {-8, -1, 0, 0.125, 27});
  expect_exactly(pow(x, -1), {5}, {-0.5, -1, infinity, 2, 1 / 3.0});
  expect_exactly(pow(x, -2), {5}, {0.25, 1, infinity, 4, 1 / 9.0});
  expect_near(pow(f64({0, 2, 4}), 0.5), {3}, {0, std::sqrt(2.0), 2}, 1e-15);
  expect_exactly(pow(f64({-1, -0.5}), 0.5), {2}, {nan, nan});
  expect_exactly(pow(f64({nan, infinity}), 0), {2}, {1, 1});
  EXPECT_EQ(pow(f64({2}), 0.1).at({0}), std::pow(2.0, 0.1));
  EXPECT_EQ(pow(tensor(2), 0.1).item(), static_cast<double>(std::pow(2.0f, 0.1f)));
  EXPECT_EQ(pow(tensor(3), 2).dtype(), DType::f32);
}

TEST(Elementwise, SigmoidKeepsItsDigitsInBothTails) {
  expect_exactly(sigmoid(f64({0, -infinity, infinity, nan, -1000, 1000})), {6}, {0.5, 0, 1, nan, 0, 1});
  const auto slope = [](double x) { return grad(f64(x), [](const Tensor& t) { return sigmoid(t); }).item(); };
  for (const double x : {-700.0, -40.0, -1.0, 1.0, 40.0, 700.0}) {
    EXPECT_NEAR(sigmoid(f64(-std::abs(x))).item() / (std::exp(-std::abs(x)) / (1 + std::exp(-std::abs(x)))), 1, 1e-14);
    const double e = std::exp(-std::abs(x));
    EXPECT_NEAR(slope(x) / (e / ((1 + e) * (1 + e))), 1, 1e-14) << x;
  }
  EXPECT_EQ(sigmoid(f64(40)).item(), 1);
  EXPECT_NEAR(slope(40) / 4.248354255291589e-18, 1, 1e-14);
}

TEST(Elementwise, SigmoidSlopeOfTheRuleHasTheDigitsOfTheKernels) {
  for (double at = -40; at <= 40; at += 1.7) {
    Tape tape;
    const Tensor x = tape.watch(f64(at));
    const double kernel = grad(f64(at), [](const Tensor& t) { return sigmoid(t); }).item();
    const Tensor rule = tape.backward(sigmoid(x), {.create_graph = true}).of(x);
    EXPECT_NEAR(rule.item() / kernel, 1, 1e-14) << at;
    // σ'' = σ' (1 − 2σ), which is −σ' · tanh(x/2)
    const double second = tape.backward(rule).of(x).item();
    EXPECT_NEAR(second, -kernel * std::tanh(at / 2), 1e-14 * kernel) << at;
  }
}

TEST(Elementwise, MagnitudesRootsAndExtremaByHand) {
  expect_exactly(abs(f64({-2, -0.0, 0, 3, nan, -infinity})), {6}, {2, 0, 0, 3, nan, infinity});
  EXPECT_FALSE(std::signbit(abs(f64(-0.0)).item()));
  expect_exactly(rsqrt(f64({4, 0, -1, infinity, 0.25})), {5}, {0.5, infinity, nan, 0, 2});
  expect_exactly(minimum(f64({1, 5, 2}), f64({3, 2, 2})), {3}, {1, 2, 2});
  expect_exactly(maximum(f64({1, 5, 2}), f64({3, 2, 2})), {3}, {3, 5, 2});
  expect_exactly(maximum(f64({{1}, {4}}), f64({2, 3})), {2, 2}, {2, 3, 4, 4});
  expect_exactly(minimum(f64({nan, 1, nan}), f64({1, nan, nan})), {3}, {nan, nan, nan});
  expect_exactly(maximum(f64({nan, 1, -infinity}), f64({1, nan, infinity})), {3}, {nan, nan, infinity});
}

TEST(Elementwise, SpecialValuesFollowIeee) {
  expect_exactly(f64({1, -1, 0}) / f64({0, 0, 0}), {3}, {infinity, -infinity, nan});
  expect_exactly(log(f64({0, -1, infinity})), {3}, {-infinity, nan, infinity});
  expect_exactly(exp(f64({-infinity, infinity, nan})), {3}, {0, infinity, nan});
  expect_exactly(tanh(f64({-infinity, infinity, nan})), {3}, {-1, 1, nan});
  expect_exactly(sqrt(f64({-1, infinity})), {2}, {nan, infinity});
  expect_exactly(clamp(f64({nan, -infinity, infinity}), 0, 1), {3}, {nan, 0, 1});
  EXPECT_TRUE(std::signbit((-f64(0)).item()));
}

TEST(Elementwise, F32AndF64AgreeOnEveryFunction) {
  using Function = Tensor (*)(const Tensor&);
  for (const Function f : {Function(exp), Function(tanh), Function(sin), Function(cos), Function(erf), Function(erfc),
                           Function(abs), Function(sigmoid)}) {
    const Tensor x = uniform(Key{.seed = 3}, {100}, -3, 3, DType::f32);
    std::vector<double> wide = x.to_doubles();
    expect_near(f(x), {100}, f(tensor(wide, {100})).to_doubles(), 5e-7);
  }
}

// ---- gradients ------------------------------------------------------------------------------------------------------

TEST(Elementwise, GradientsByHand) {
  const auto pair = [](Tensor (*f)(const Tensor&, const Tensor&)) {
    return grad(std::vector{f64(3), f64(2)}, [f](const std::vector<Tensor>& x) { return f(x[0], x[1]); });
  };
  EXPECT_EQ(pair(add)[0].item(), 1);
  EXPECT_EQ(pair(add)[1].item(), 1);
  EXPECT_EQ(pair(sub)[0].item(), 1);
  EXPECT_EQ(pair(sub)[1].item(), -1);
  EXPECT_EQ(pair(mul)[0].item(), 2);
  EXPECT_EQ(pair(mul)[1].item(), 3);
  EXPECT_EQ(pair(div)[0].item(), 0.5);
  EXPECT_EQ(pair(div)[1].item(), -0.75);
  EXPECT_EQ(grad(f64(3), [](const Tensor& x) { return x * x; }).item(), 6);
  EXPECT_EQ(grad(f64(4), [](const Tensor& x) { return sqrt(x); }).item(), 0.25);
  EXPECT_EQ(grad(f64(0), [](const Tensor& x) { return sqrt(x); }).item(), infinity);
}

TEST(Elementwise, ClampLetsTheGradientThroughWithinAndAtTheBounds) {
  const Tensor dx = grad(f64({-2, -1, 0, 1, 2, nan}), [](const Tensor& x) { return sum(clamp(x, -1, 1)); });
  expect_exactly(dx, {6}, {0, 1, 1, 1, 0, 0});
}

TEST(Elementwise, TheSlopeOfAbsAtZeroIsZero) {
  const Tensor dx = grad(f64({-3, -0.0, 0, 2, nan}), [](const Tensor& x) { return sum(abs(x)); });
  expect_exactly(dx, {5}, {-1, 0, 0, 1, 0});
}

TEST(Elementwise, EqualOperandsOfAnExtremumShareTheGradient) {
  for (const auto f : {minimum, maximum}) {
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor a = tape.watch(f64({1, 5, 2, 0})), b = tape.watch(f64({3, 4, 2, -0.0}));
      const Gradients g = tape.backward(f(a, b), f64({2, 2, 2, 2}), {.create_graph = create_graph});
      const bool larger = f == maximum;
      expect_exactly(g.of(a).detach(), {4}, {larger ? 0.0 : 2.0, larger ? 2.0 : 0.0, 1, 1});
      expect_exactly(g.of(b).detach(), {4}, {larger ? 2.0 : 0.0, larger ? 0.0 : 2.0, 1, 1});
    }
  }
}

TEST(Elementwise, WhereEitherOperandOfAnExtremumIsNaNBothGradientsAreZero) {
  for (const auto f : {minimum, maximum}) {
    Tape tape;
    const Tensor a = tape.watch(f64({nan, 1, nan, 1})), b = tape.watch(f64({1, nan, nan, 1}));
    const Gradients g = tape.backward(sum(f(a, b)));
    expect_exactly(g.of(a), {4}, {0, 0, 0, 0.5});
    expect_exactly(g.of(b), {4}, {0, 0, 0, 0.5});
  }
}

TEST(Elementwise, AnExtremumGathersTheGradientOfAStretchedOperand) {
  Tape tape;
  const Tensor a = tape.watch(f64({{1, 5, 2}, {3, 0, 2}})), b = tape.watch(f64(2));
  const Gradients g = tape.backward(sum(maximum(a, b)));
  expect_exactly(g.of(a), {2, 3}, {0, 1, 0.5, 1, 0, 0.5});
  expect_exactly(g.of(b), {}, {3});
}

/// The first and second derivative of x^exponent by the rule, the third by differentiating once more.
std::vector<double> derivatives_of_pow(double x, double exponent, DType dtype) {
  const auto f0 = [=](const Tensor& t) { return pow(t, exponent); };
  const auto f1 = [=](const Tensor& t) { return grad(t, f0); };
  const auto f2 = [=](const Tensor& t) { return grad(t, f1); };
  const Tensor at = tensor(x, dtype);
  return {grad(at, f0).item(), grad(at, f1).item(), grad(at, f2).item()};
}

TEST(Elementwise, WholePowersHaveFiniteDerivativesOfEveryOrderAtZeroAndBelow) {
  using Derivatives = std::vector<double>;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double x : {0.0, -0.0, -2.0, 3.0}) {
      EXPECT_EQ(derivatives_of_pow(x, 0, dtype), (Derivatives{0, 0, 0})) << x;
      EXPECT_EQ(derivatives_of_pow(x, 1, dtype), (Derivatives{1, 0, 0})) << x;
      EXPECT_EQ(derivatives_of_pow(x, 2, dtype), (Derivatives{2 * x, 2, 0})) << x;
      EXPECT_EQ(derivatives_of_pow(x, 3, dtype), (Derivatives{3 * x * x, 6 * x, 6})) << x;
      EXPECT_EQ(derivatives_of_pow(x, 4, dtype), (Derivatives{4 * x * x * x, 12 * x * x, 24 * x})) << x;
    }
    EXPECT_EQ(derivatives_of_pow(-2, -1, dtype), (Derivatives{-0.25, -0.25, -0.375}));
    EXPECT_EQ(derivatives_of_pow(4, 0.5, dtype), (Derivatives{0.25, -1 / 32.0, 3 / 256.0}));
  }
}

TEST(Elementwise, BrokenPowersHaveAnInfiniteDerivativeAtZero) {
  EXPECT_EQ(derivatives_of_pow(0, 0.5, DType::f64)[0], infinity);
  const std::vector<double> d = derivatives_of_pow(0, 1.5, DType::f64);
  EXPECT_EQ(d[0], 0);
  EXPECT_EQ(d[1], infinity);
  const Tensor x = f64({0, 4}), taken = f64({0, 1});
  // The safe form: the argument is selected before the power, the value after it.
  const Tensor dx = grad(x, [&](const Tensor& t) {
    const Tensor inside = not_equal(taken, 0.0);
    return sum(where(inside, pow(where(inside, t, 1.0), 0.5), 0.0));
  });
  expect_exactly(dx, {2}, {0, 0.25});
}

TEST(Elementwise, PowersZeroAndOneKeepNothingForBackward) {
  Tape tape;
  const Tensor x = tape.watch(ones({1000}));
  const Tensor y = pow(x, 0) + pow(x, 1);
  EXPECT_EQ(tape.saved_bytes(), 0);
  expect_exactly(tape.backward(sum(y)).of(x), {1000}, std::vector<double>(1000, 1));
}

TEST(Elementwise, AGradientHasTheShapeOfItsStretchedOperand) {
  // (2,3)·(3,1) + bias (1,3) − label (2,1), squared, summed, as in a linear layer whose label was left with an axis of 1.
  Tape tape;
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}}), w = f64({{1}, {0}, {-1}}), label = f64({{1}, {2}});
  const Tensor bias = tape.watch(f64({{10, 20, 30}}));
  const Tensor product = sum(x * reshape(w, {3}), -1, keep_axes);
  const Tensor error = product + bias - label;
  expect_exactly(error, {2, 3}, {7, 17, 27, 6, 16, 26});
  expect_exactly(tape.backward(sum(error * error)).of(bias), {1, 3}, {26, 66, 106});
}

TEST(Elementwise, ThePowersRuleHasTheExponentOfItsValues) {
  const auto power = [](double exponent) { return [=](const Tensor& x) { return pow(x, exponent); }; };
  EXPECT_EQ(grad(tensor(-2), power(1 + 1e-12)).item(), 1);
  EXPECT_EQ(grad(tensor(-2), [&](const Tensor& x) { return grad(x, power(2 + 1e-12)); }).item(), 2);
  EXPECT_EQ(grad(tensor(0), power(1e-46)).item(), 0);
  EXPECT_EQ(error_of([&] { pow(tensor(2), 1e300); }), "pow: exponent must be finite; got inf");
}

TEST(Elementwise, AStretchedSquareGathersEveryUse) {
  const Tensor dx = grad(ones({3, 3}, DType::f64), [](const Tensor& x) {
    const Tensor y = x + ones({3, 3, 3}, DType::f64);
    return sum(y * y);
  });
  expect_exactly(dx, {3, 3}, std::vector<double>(9, 12));
}

TEST(Elementwise, AStretchedCotangentIsReadThroughItsStrides) {
  Tape tape;
  const Tensor x = tape.watch(uniform(Key{.seed = 4}, {1000}, -1, 1, DType::f64));
  const Tensor up = broadcast_to(f64(1), Shape{1000});
  expect_exactly(tape.backward(2.0 * x, up).of(x), {1000}, std::vector<double>(1000, 2));
  Tape other;
  const Tensor z = other.watch(zeros({4, 3}, DType::f64));
  expect_exactly(other.backward(tanh(z), broadcast_to(f64({1, 2, 3}), Shape{4, 3})).of(z), {4, 3},
                 {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3});
}

TEST(Elementwise, ADifferenceWithItselfIsFlat) {
  const auto [value, gradient] = value_and_grad(f64(0.7), [](const Tensor& x) { return (x - x) * (x - x); });
  EXPECT_EQ(value.item(), 0);
  EXPECT_EQ(gradient.item(), 0);
}

TEST(Elementwise, AnEmptySumHasZeroGradients) {
  Tape tape;
  const Tensor b = tape.watch(ones({4, 1}, DType::f64));
  const Tensor y = sum(ones({4, 0}, DType::f64) + b);
  EXPECT_EQ(y.item(), 0);
  expect_exactly(tape.backward(y).of(b), {4, 1}, {0, 0, 0, 0});
}

TEST(Elementwise, AdditionsAndScalesKeepNothingForBackward) {
  Tape tape;
  const Tensor x = tape.watch(ones({1000})), y = tape.watch(ones({1000}));
  const Tensor z = -scale(x + y, 2, 1) - y;
  EXPECT_EQ(tape.saved_bytes(), 0);
  const Tensor w = z * ones({1000});  // keeps the constant only
  EXPECT_EQ(tape.saved_bytes(), 4000);
  expect_exactly(tape.backward(sum(w)).of(y), {1000}, std::vector<double>(1000, -3));
}

TEST(Elementwise, DerivativesOfHigherOrder) {
  const auto f = [](const Tensor& x) { return sum(tanh(x)); };
  const auto f1 = [&](const Tensor& x) { return sum(grad(x, f)); };
  const auto f2 = [&](const Tensor& x) { return sum(grad(x, f1)); };
  const double t = std::tanh(0.3), slope = 1 - t * t;
  EXPECT_NEAR(grad(f64(0.3), f).item(), slope, 1e-15);
  EXPECT_NEAR(grad(f64(0.3), f1).item(), -2 * t * slope, 1e-15);
  EXPECT_NEAR(grad(f64(0.3), f2).item(), (6 * t * t - 2) * slope, 1e-14);
}

RC_GTEST_PROP(Elementwise, FewElementsAndManyGiveTheSameBits, ()) {
  // Short tensors take a way of their own; slices of long ones do not.
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const Index count = *rc::gen::inRange<Index>(1, 17);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = uniform(Key{.seed = seed}, {100}, -3, 3, dtype);
    const Tensor b = uniform(Key{.seed = seed + 1ull}, {100}, 0.5, 3, dtype);
    const auto head = [count](const Tensor& x) { return slice(x, 0, 0, count); };
    RC_ASSERT((head(a) + head(b)).to_doubles() == head(a + b).to_doubles());
    RC_ASSERT((head(a) - head(b)).to_doubles() == head(a - b).to_doubles());
    RC_ASSERT((head(a) * head(b)).to_doubles() == head(a * b).to_doubles());
    RC_ASSERT((head(a) / head(b)).to_doubles() == head(a / b).to_doubles());
    RC_ASSERT((-head(a)).to_doubles() == head(-a).to_doubles());
  }
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(Elementwise, ErrorsNameWhatMustHold) {
  const Tensor f = ones({2, 3}), d = ones({2, 3}, DType::f64), i = ones({2, 3}, DType::i32);
  const Tensor t = ones({2, 3}, DType::boolean);
  EXPECT_EQ(error_of([&] { f + d; }), "add: a and b must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error_of([&] { f* ones({4}); }),
            "mul: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2, 3] and [4]");
  EXPECT_EQ(error_of([&] { i / i; }), "div: a and b must be f32 or f64; got i32; cast them first");
  EXPECT_EQ(error_of([&] { t - t; }), "sub: a and b must be f32, f64 or i32; got bool; cast them first");
  EXPECT_EQ(error_of([&] { -t; }), "neg: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([&] { exp(i); }), "exp: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { i * 2.0; }), "scale: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { 1.0 / i; }), "div: b must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { clamp(f, 2, 1); }), "clamp: low must not exceed high; got low 2 and high 1");
  EXPECT_EQ(error_of([&] { clamp(f, nan, 1); }), "clamp: low must not exceed high; got low nan and high 1");
  EXPECT_EQ(error_of([&] { minimum(i, i); }), "minimum: a and b must be f32 or f64; got i32; cast them first");
  EXPECT_EQ(error_of([&] { maximum(f, d); }),
            "maximum: a and b must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error_of([&] { maximum(f, ones({4})); }),
            "maximum: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2, 3] and [4]");
  EXPECT_EQ(error_of([&] { abs(i); }), "abs: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { rsqrt(i); }), "rsqrt: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { sigmoid(t); }), "sigmoid: x must be f32 or f64; got bool; cast it first");
  EXPECT_EQ(error_of([&] { pow(i, 2); }), "pow: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { pow(f, infinity); }), "pow: exponent must be finite; got inf");
  EXPECT_EQ(error_of([&] { pow(f, nan); }), "pow: exponent must be finite; got nan");
  EXPECT_EQ(error_of([&] { tanh(Tensor()); }),
            "tanh: inputs must hold values; got an empty handle as input 0; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan
