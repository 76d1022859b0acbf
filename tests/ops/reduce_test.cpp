// ops/reduce.h: values, accuracy, gradients worked out by hand, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <limits>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }

TEST(Reduce, ValuesByHand) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 9}});
  expect_exactly(sum(x), {}, {24});
  expect_exactly(sum(x, 0), {3}, {5, 7, 12});
  expect_exactly(sum(x, -1), {2}, {6, 18});
  expect_exactly(sum(x, {0, 1}), {}, {24});
  expect_exactly(sum(x, {1, 0}, keep_axes), {1, 1}, {24});
  expect_exactly(sum(x, 1, keep_axes), {2, 1}, {6, 18});
  expect_exactly(sum(x, {}), {2, 3}, {1, 2, 3, 4, 5, 9});
  expect_exactly(mean(x), {}, {4});
  expect_exactly(mean(x, 0), {3}, {2.5, 3.5, 6});
  expect_exactly(mean(x, 1, keep_axes), {2, 1}, {2, 6});
  expect_exactly(max(x), {}, {9});
  expect_exactly(max(x, 0), {3}, {4, 5, 9});
  expect_exactly(max(x, -1, keep_axes), {2, 1}, {3, 9});
  expect_exactly(min(x), {}, {1});
  expect_exactly(min(x, 0), {3}, {1, 2, 3});
  expect_exactly(min(x, -1, keep_axes), {2, 1}, {1, 4});
}

TEST(Reduce, ReadsStrides) {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 9}});
  expect_exactly(sum(transpose(x), 0), {2}, {6, 18});
  expect_exactly(mean(slice(x, 1, 0, 3, 2), 1), {2}, {2, 6.5});
  expect_exactly(max(transpose(x), 1), {3}, {4, 5, 9});
  expect_exactly(min(transpose(x), 1), {3}, {1, 2, 3});
  expect_exactly(sum(broadcast_to(f64({1, 2}), Shape{3, 2}), 0), {2}, {3, 6});
  expect_exactly(sum(permute(reshape(arange(24), Shape{2, 3, 4}), {2, 0, 1}), {0, 2}), {2}, {66, 210});
}

TEST(Reduce, AMillionF32TermsLoseNothing) {
  const Tensor square = full({250, 250}, 1.23456), wide = full({250, 750}, 1.23456);
  EXPECT_NEAR(sum(square).item(), 77160, 0.01);
  for (const Tensor& view : {square, transpose(square), slice(wide, 1, 0, to_end, 3), slice(wide, 1, 300, 550)}) {
    EXPECT_NEAR(sum(view).item(), 77160, 0.01);
    for (const int axis : {0, 1})
      for (const double line : sum(view, axis).to_doubles()) EXPECT_NEAR(line, 77160.0 / 250, 4e-5);
  }
  EXPECT_EQ(sum(full({1 << 24}, 1)).item(), 1 << 24);
  const Tensor x = uniform(Key{.seed = 5}, {300, 301}, -1, 1);
  double exact = 0;
  for (const double value : x.to_doubles()) exact += value;
  EXPECT_EQ(sum(x).item(), static_cast<double>(static_cast<float>(exact)));
}

TEST(Reduce, TheSumOfNothingIsZero) {
  expect_exactly(sum(zeros({4, 0})), {}, {0});
  expect_exactly(sum(zeros({4, 0}), 1), {4}, {0, 0, 0, 0});
  expect_exactly(sum(zeros({4, 0}), 0), {0}, {});
  expect_exactly(mean(zeros({0, 3}), 1), {0}, {});
  expect_exactly(max(zeros({0, 3}), 1, keep_axes), {0, 1}, {});
}

TEST(Reduce, WholeNumbers) {
  const Tensor ids = tensor({{3, -5}, {2147483647, 1}}, DType::i32);
  expect_exactly(sum(ids, 1), {2}, {-2, -2147483648.0});
  expect_exactly(max(ids, 0), {2}, {2147483647, 1});
  expect_exactly(min(ids, 0), {2}, {3, -5});
  EXPECT_EQ(sum(ids).dtype(), DType::i32);
}

TEST(Reduce, TheMaximumSeesNaNAndInfinity) {
  expect_exactly(max(f64({{1, nan, 3}, {1, -infinity, 3}, {-infinity, -infinity, -infinity}}), 1), {3},
                 {nan, 3, -infinity});
}

TEST(Reduce, TheMinimumSeesNaNAndInfinity) {
  expect_exactly(min(f64({{1, nan, 3}, {1, infinity, 3}, {infinity, infinity, infinity}, {1, -infinity, 3}}), 1), {4},
                 {nan, 1, infinity, -infinity});
  expect_exactly(min(zeros({0, 3}), 1, keep_axes), {0, 1}, {});
}

// Ten million terms: the order of additions is what keeps the error small, whatever the axes and the strides.
TEST(Reduce, TenMillionTermsOfATenthLoseNothingOverAnyAxesAndStrides) {
  constexpr Index count = 10'000'000;
  const float tenth = 0.1f;
  const double exact = count * static_cast<double>(tenth);
  const auto expect_total = [&](const Tensor& got) {
    double total = 0;
    for (const double part : got.to_doubles()) total += part;
    EXPECT_NEAR(total, exact, exact * 6e-8) << to_string(got.shape());
  };
  const Tensor dense = full({count}, tenth);
  const auto shaped = [&](const Shape& shape) { return reshape(dense, shape); };
  expect_total(sum(dense));
  expect_total(sum(shaped({10, count / 10}), 1));
  expect_total(sum(shaped({count / 10, 10}), 0));
  expect_total(sum(shaped({count / 10, 10}), 1));
  expect_total(sum(shaped({count / 2000, 2000}), 0));
  expect_total(sum(shaped({100, 1000, 100}), {0, 2}));
  expect_total(sum(shaped({100, 1000, 100}), {0, 1}));
  expect_total(sum(transpose(shaped({count / 10, 10})), 1));
  expect_total(sum(transpose(shaped({100, 1000, 100}), 0, 1)));
  expect_total(2.0 * sum(slice(dense, 0, 1, to_end, 2)));
  expect_total(2.0 * sum(slice(shaped({count / 16, 16}), 1, 0, to_end, 2), 0));
  expect_total(sum(broadcast_to(full({1}, tenth), Shape{count})));
  expect_total(static_cast<double>(count) * mean(shaped({count / 10, 10})));
}

TEST(Reduce, F64SumsErrByFewUnitsOverAnyAxesAndStrides) {
  // 0.1 in f64, 2^22 times: a plain running sum errs by 1e-10 of it, a pairwise one by less than 1e-14.
  constexpr Index count = 1 << 22;
  const Tensor dense = full({count}, 0.1, DType::f64);
  const auto expect_each = [&](const Tensor& got, Index terms = 1 << 22) {
    const double want = 0.1 * static_cast<double>(terms / got.elements());
    for (const double total : got.to_doubles()) EXPECT_NEAR(total, want, want * 1e-14) << to_string(got.shape());
  };
  const auto shaped = [&](const Shape& shape) { return reshape(dense, shape); };
  expect_each(sum(dense));
  expect_each(sum(shaped({count / 8, 8}), 0));
  expect_each(sum(transpose(shaped({8, count / 8})), 0));
  expect_each(sum(shaped({64, count / 4096, 64}), {0, 1}));
  expect_each(sum(shaped({count / 64, 2, 32}), {0, 1}));
  // Only two rows in the innermost reduced axis: blocks go on across it.
  expect_each(sum(slice(shaped({count / 64, 4, 16}), 1, 0, 2), {0, 1}), count / 2);
  expect_each(sum(slice(shaped({count / 16, 16}), 1, 0, to_end, 2), 0), count / 2);
}

TEST(Reduce, VarianceByHand) {
  const Tensor x = f64({{1, 2, 3, 4}, {2, 2, 2, 10}});
  expect_exactly(variance(x, 1), {2}, {1.25, 12});
  test::expect_near(variance(x, 1, {.correction = 1}), {2}, {5.0 / 3, 16}, 1e-15);
  expect_exactly(variance(x, 0, {}, keep_axes), {1, 4}, {0.25, 0, 0.25, 9});
  expect_exactly(variance(f64({1, 3})), {}, {1});
  expect_exactly(variance(f64({{5}}), 1), {1}, {0});
  expect_exactly(variance(zeros({0, 3}), 1, {.correction = 1}), {0}, {});
  Tape tape;
  const Tensor watched = tape.watch(f64({1, 2, 6}));
  expect_exactly(tape.backward(variance(watched, 0, {.correction = 1})).of(watched), {3}, {-2, -1, 3});
}

TEST(Reduce, VarianceOfRowsFarFromZeroLosesNothing) {
  const Tensor centred = normal(Key{.seed = 6}, {3, 4096}, 0, 1);
  const Tensor x = centred + 2000.0;
  const Tensor exact = variance(cast(x, DType::f64), 1);
  for (Index row = 0; row < 3; ++row) {
    EXPECT_NEAR(variance(x, 1).at({row}), exact.at({row}), 1e-6);
    EXPECT_NEAR(variance(x, 1).at({row}), 1, 0.1);
  }
  expect_exactly(variance(full({5, 7}, 12345.678)), {}, {0});
}

// ---- gradients ------------------------------------------------------------------------------------------------------

TEST(Reduce, AVarianceOverflowsNoEarlierThanItsValue) {
  const Tensor x = concat({full({50}, 1e19, DType::f32), full({50}, -1e19, DType::f32)}, 0);
  EXPECT_NEAR(variance(x).item() / 1e38, 1, 1e-6);
}

TEST(Reduce, TiesShareTheGradientOfTheMaximum) {
  Tape tape;
  const Tensor x = tape.watch(f64({{1, 3, 3, 2}, {5, 0, 0, 0}, {7, 7, 7, 7}}));
  const Tensor y = max(x, 1);
  expect_exactly(tape.backward(y, f64({4, 1, 2})).of(x), {3, 4}, {0, 2, 2, 0, 1, 0, 0, 0, 0.5, 0.5, 0.5, 0.5});
}

TEST(Reduce, TiesShareTheGradientOfTheMinimum) {
  Tape tape;
  const Tensor x = tape.watch(f64({{4, 3, 3, 5}, {-5, 0, 0, 0}, {7, 7, 7, 7}}));
  const Tensor y = min(x, 1);
  expect_exactly(tape.backward(y, f64({4, 1, 2})).of(x), {3, 4}, {0, 2, 2, 0, 1, 0, 0, 0, 0.5, 0.5, 0.5, 0.5});
}

TEST(Reduce, EveryElementOfAMeanGetsItsShare) {
  Tape tape;
  const Tensor x = tape.watch(f64({{1, 2}, {3, 4}}));
  expect_exactly(tape.backward(mean(x, 1), f64({2, 6})).of(x), {2, 2}, {1, 1, 3, 3});
}

TEST(Reduce, AddingUpKeepsNothingForBackward) {
  Tape tape;
  const Tensor x = tape.watch(ones({10, 100}));
  const Tensor y = sum(mean(x, 1, keep_axes)) + sum(sum_to(x, Shape{100}));
  EXPECT_EQ(tape.saved_bytes(), 0);
  expect_exactly(tape.backward(y).of(x), {10, 100}, std::vector<double>(1000, static_cast<double>(1.f / 100 + 1)));
}

TEST(Reduce, TheSecondDerivativeOfAMaximumIsThatOfItsArgument) {
  const auto f = [](const Tensor& x) { return max(x * x * x); };
  const auto slope = [&](const Tensor& x) { return sum(grad(x, f)); };
  expect_exactly(grad(f64({1, 2}), f), {2}, {0, 12});
  expect_exactly(grad(f64({1, 2}), slope), {2}, {0, 12});
}

// ---- sum_to ---------------------------------------------------------------------------------------------------------

TEST(SumTo, ReversesABroadcast) {
  const Tensor x = f64({{1, 2}, {3, 4}});
  expect_exactly(sum_to(x, Shape{2, 1}), {2, 1}, {3, 7});
  expect_exactly(sum_to(x, Shape{2}), {2}, {4, 6});
  expect_exactly(sum_to(x, Shape{1}), {1}, {10});
  expect_exactly(sum_to(x, Shape{}), {}, {10});
  expect_exactly(sum_to(zeros({4, 0}), Shape{4, 1}), {4, 1}, {0, 0, 0, 0});
}

TEST(SumTo, TheSameShapeIsTheTensorItself) {
  Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  const Index before = tape.size();
  EXPECT_TRUE(sum_to(x, Shape{2}).recorded());
  EXPECT_EQ(tape.size(), before);
}

RC_GTEST_PROP(SumTo, IsTheTransposeOfBroadcastTo, ()) {
  // ⟨broadcast_to(x), y⟩ = ⟨x, sum_to(y)⟩ for whole numbers, exactly.
  Shape small, large;
  for (int axis = *rc::gen::inRange(0, 5); axis > 0; --axis) large.push_back(*rc::gen::inRange<Index>(0, 4));
  const int dropped = *rc::gen::inRange(0, large.rank() + 1);
  for (int axis = dropped; axis < large.rank(); ++axis) small.push_back(*rc::gen::arbitrary<bool>() ? 1 : large[axis]);
  const auto whole = [](std::uint64_t seed, const Shape& shape) {
    std::vector<double> values = uniform(Key{.seed = seed}, shape, -9, 9, DType::f64).to_doubles();
    for (double& value : values) value = static_cast<double>(static_cast<int>(value));
    return tensor(values, shape);
  };
  const Tensor x = whole(1, small), y = whole(2, large);
  RC_ASSERT(sum(broadcast_to(x, large) * y).item() == sum(x * sum_to(y, small)).item());
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(Reduce, ErrorsNameWhatMustHold) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(error_of([&] { sum(x, 2); }), "sum: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([&] { max(x, {0, -2}); }), "max: axes must differ; got {0, -2} for shape [2, 3]");
  EXPECT_EQ(error_of([&] { sum(x, {0, 1, 2, 3, 4, 5, 6, 7, 8}); }), "axes: at most 8 may be named; got one more");
  EXPECT_EQ(error_of([&] { mean(ones({2}, DType::i32)); }), "mean: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { sum(ones({2}, DType::boolean)); }),
            "sum: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([&] { max(ones({2}, DType::boolean)); }),
            "max: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([&] {
              mean(zeros({4, 0}));
            }),
            "mean: there must be at least one element for each result; got shape [4, 0] over axes {0, 1}");
  EXPECT_EQ(error_of([&] {
              max(zeros({4, 0}), 1);
            }),
            "max: there must be at least one element for each result; got shape [4, 0] over axes {1}");
  EXPECT_EQ(error_of([&] { min(ones({2}, DType::boolean)); }),
            "min: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([&] { min(zeros({0})); }),
            "min: there must be at least one element for each result; got shape [0] over axes {0}");
  EXPECT_EQ(error_of([&] { variance(x, -1, {.correction = 3}); }),
            "variance: there must be more elements for each result than the correction of 3; got shape [2, 3] over "
            "axes {-1}");
  EXPECT_EQ(error_of([&] { variance(zeros({0})); }),
            "variance: there must be more elements for each result than the correction of 0; got shape [0] over axes "
            "{0}");
  EXPECT_EQ(error_of([&] { variance(x, 0, {.correction = -1}); }), "variance: correction must not be negative; got -1");
  EXPECT_EQ(error_of([&] { variance(x, {0, 0}); }), "variance: axes must differ; got {0, 0} for shape [2, 3]");
  EXPECT_EQ(error_of([&] { variance(ones({2}, DType::i32)); }),
            "variance: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { variance(Tensor()); }),
            "variance: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { sum_to(x, Shape{2}); }), "sum_to: the shape must broadcast to x's; got [2] for x [2, 3]");
  EXPECT_EQ(error_of([&] {
              sum_to(x, Shape{1, 2, 3});
            }),
            "sum_to: the shape must broadcast to x's; got [1, 2, 3] for x [2, 3]");
  EXPECT_EQ(error_of([] { sum(Tensor(), 0); }),
            "sum: x must hold a value; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan
