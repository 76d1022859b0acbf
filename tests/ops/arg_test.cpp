// ops/arg.h and ops/scan.h: values by hand, ties, NaN, memory layouts, errors. Gradient checks:
// samples/reduce_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/scan.h>

#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }

TEST(Arg, PlacesByHand) {
  const Tensor x = f64({{1, 5, 2}, {7, 3, 0}});
  expect_exactly(argmax(x, 1), {2}, {1, 0});
  expect_exactly(argmin(x, 1), {2}, {0, 2});
  expect_exactly(argmax(x, 0, keep_axes), {1, 3}, {1, 0, 0});
  expect_exactly(argmin(x, -1, keep_axes), {2, 1}, {0, 2});
  expect_exactly(argmax(f64({4, 6}), 0), {}, {1});
  expect_exactly(argmax(tensor({{3, -9}, {-2147483648.0, 2147483647.0}}, DType::i32), 0), {2}, {0, 1});
  EXPECT_EQ(argmax(x, 1).dtype(), DType::i32);
}

TEST(Arg, OfEqualElementsTheFirst) {
  const Tensor x = f64({{2, 5, 5, 2}, {0, 0, 0, 0}, {-infinity, -infinity, -infinity, -infinity}});
  expect_exactly(argmax(x, 1), {3}, {1, 0, 0});
  expect_exactly(argmin(x, 1), {3}, {0, 0, 0});
  expect_exactly(argmax(f64({0.0, -0.0}), 0), {}, {0});
}

TEST(Arg, TheFirstNaNWins) {
  const Tensor x = f64({{1, nan, infinity, nan}, {nan, 0, 1, 2}, {-infinity, 1, 2, nan}});
  for (const auto f : {argmax, argmin}) expect_exactly(f(x, 1, false), {3}, {1, 0, 3});
}

TEST(Arg, ReadsStrides) {
  const Tensor x = normal(Key{.seed = 4}, {40, 7, 33});
  for (const auto f : {argmax, argmin}) {
    expect_exactly(f(transpose(x, 0, 2), 2, false), {33, 7}, f(transpose(x, 0, 2).dense(), 2, false).to_doubles());
    expect_exactly(f(slice(x, 2, 1, to_end, 3), 2, false), {40, 7},
                   f(slice(x, 2, 1, to_end, 3).dense(), 2, false).to_doubles());
    expect_exactly(f(x, 0, false), {7, 33}, transpose(f(transpose(x, 0, 2).dense(), 2, false)).to_doubles());
  }
  expect_exactly(argmax(broadcast_to(f64({{1}, {2}}), Shape{2, 5}), 1), {2}, {0, 0});
}

TEST(Arg, HasNoGradient) {
  Tape tape;
  const Tensor x = tape.watch(f64({1, 2}));
  EXPECT_FALSE(argmax(x, 0).recorded());
  EXPECT_FALSE(argmin(x, 0).recorded());
}

TEST(Arg, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { argmax(zeros({2, 3}), 2); }), "argmax: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([] { argmin(zeros({}), 0); }), "argmin: axis must be in [0, 0); got 0 for shape []");
  EXPECT_EQ(error_of([] { argmax(zeros({2}, DType::boolean), 0); }),
            "argmax: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([] {
              argmin(zeros({2, 0}), 1);
            }),
            "argmin: the axis must have 1 to 2^31 - 1 elements; got axis 1 of x [2, 0]");
  EXPECT_EQ(error_of([] { argmax(Tensor(), 0); }),
            "argmax: x must hold a value; got an empty handle; assign a tensor to it first");
  expect_exactly(argmax(zeros({0, 0}), 1), {0}, {});
  EXPECT_EQ(error_of([] { argmax(broadcast_to(ones({1}), Shape{Index{1} << 31}), 0); }),
            "argmax: the axis must have 1 to 2^31 - 1 elements; got axis 0 of x [2147483648]");
}

// ---- running sums ---------------------------------------------------------------------------------------------------

TEST(Cumsum, ValuesByHand) {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  expect_exactly(cumsum(x, 1), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_exactly(cumsum(x, 1, {.reverse = true}), {2, 3}, {6, 5, 3, 15, 11, 6});
  expect_exactly(cumsum(x, 0), {2, 3}, {1, 2, 3, 5, 7, 9});
  expect_exactly(cumsum(x, -2, {.reverse = true}), {2, 3}, {5, 7, 9, 4, 5, 6});
  expect_exactly(cumsum(transpose(x), 0), {3, 2}, {1, 4, 3, 9, 6, 15});
  expect_exactly(cumsum(f64({1, infinity, 1, -infinity, 1}), 0), {5}, {1, infinity, infinity, nan, nan});
  expect_exactly(cumsum(zeros({3, 0}), 1), {3, 0}, {});
}

TEST(Cumsum, TheGradientRunsTheOtherWay) {
  for (const bool reverse : {false, true}) {
    Tape tape;
    const Tensor x = tape.watch(f64({1, 2, 3}));
    expect_exactly(tape.backward(cumsum(x, 0, {.reverse = reverse}), f64({1, 10, 100})).of(x), {3},
                   reverse ? std::vector<double>{1, 11, 111} : std::vector<double>{111, 110, 100});
    EXPECT_EQ(tape.saved_bytes(), 0);
  }
}

TEST(Cumsum, AMillionF32TermsLoseNothing) {
  constexpr Index count = 1'000'000;
  const Tensor y = cumsum(full({count}, 0.1), 0);
  for (const Index i : {Index{0}, Index{999}, count / 2, count - 1})
    EXPECT_EQ(y.at({i}),
              static_cast<double>(static_cast<float>(static_cast<double>(i + 1) * static_cast<double>(0.1f))));
}

TEST(Cumsum, WholeNumbersWrapAndAreNotRecorded) {
  expect_exactly(cumsum(tensor({2147483647, 1, -5}, DType::i32), 0), {3}, {2147483647, -2147483648.0, 2147483643});
  EXPECT_EQ(cumsum(arange(3), 0).dtype(), DType::i32);
}

TEST(Cumsum, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { cumsum(zeros({2, 3}), -3); }), "cumsum: axis must be in [-2, 2); got -3 for shape [2, 3]");
  EXPECT_EQ(error_of([] { cumsum(zeros({2}, DType::boolean), 0); }),
            "cumsum: x must be f32, f64 or i32; got bool; cast it first");
  EXPECT_EQ(error_of([] { cumsum(Tensor(), 0); }),
            "cumsum: x must hold a value; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan::test
