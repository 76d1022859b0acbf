// ops/stack.h: values by hand, gradients, views, errors. Gradient checks: samples/gather_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/stack.h>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }

TEST(Stack, PutsTensorsSideBySideAlongANewAxis) {
  const Tensor a = f64({{1, 2, 3}, {4, 5, 6}}), b = f64({{7, 8, 9}, {10, 11, 12}});
  expect_exactly(stack({a, b}, 0), {2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_exactly(stack({a, b}, 1), {2, 2, 3}, {1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12});
  expect_exactly(stack({a, b}, -1), {2, 3, 2}, {1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12});
  expect_exactly(stack({a, b}, -3), {2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_exactly(stack({f64(1), f64(2)}, 0), {2}, {1, 2});
  expect_exactly(stack(std::vector{arange(2)}, 0), {1, 2}, {0, 1});
}

TEST(Stack, EachGradientIsItsLayer) {
  Tape tape;
  const Tensor a = tape.watch(f64({1, 2})), b = tape.watch(f64({3, 4}));
  const Gradients g = tape.backward(stack({a, b, a}, 1), f64({{1, 2, 4}, {8, 16, 32}}));
  expect_exactly(g.of(a), {2}, {5, 40});
  expect_exactly(g.of(b), {2}, {2, 16});
}

TEST(Stack, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { stack({}, 0); }), "stack: at least one tensor is needed; got none");
  EXPECT_EQ(error_of([] {
              stack({ones({2}), ones({2}), ones({3})}, 0);
            }),
            "stack: tensors must have one shape and dtype; got f32 [2] and, as number 2, f32 [3]");
  EXPECT_EQ(error_of([] {
              stack({ones({2}), ones({2}, DType::f64)}, 0);
            }),
            "stack: tensors must have one shape and dtype; got f32 [2] and, as number 1, f64 [2]");
  EXPECT_EQ(error_of([] { stack({ones({2})}, 2); }), "stack: axis must be in [-2, 1]; got 2 for tensors [2]");
  EXPECT_EQ(error_of([] {
              stack({ones({1, 1, 1, 1, 1, 1, 1, 2})}, 0);
            }),
            "stack: tensors must have at most 7 axes; got [1, 1, 1, 1, 1, 1, 1, 2]");
  EXPECT_EQ(error_of([] {
              stack({ones({2}), Tensor()}, 0);
            }),
            "stack: each tensor must hold a value; got an empty handle; assign a tensor to it first");
}

TEST(Split, CutsIntoViews) {
  const Tensor x = f64({{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}});
  const std::vector<Tensor> parts = split(x, {1, 0, 5}, 1);
  ASSERT_EQ(parts.size(), 3u);
  expect_exactly(parts[0], {2, 1}, {1, 7});
  expect_exactly(parts[1], {2, 0}, {});
  expect_exactly(parts[2], {2, 5}, {2, 3, 4, 5, 6, 8, 9, 10, 11, 12});
  const std::vector<Tensor> thirds = split(x, 3, -1);
  ASSERT_EQ(thirds.size(), 3u);
  expect_exactly(thirds[1], {2, 2}, {3, 4, 9, 10});
  EXPECT_EQ(detail::Access::storage(thirds[1]), detail::Access::storage(x));
  expect_exactly(concat(thirds, 1), {2, 6}, x.to_doubles());
  EXPECT_TRUE(split(zeros({0, 2}), {}, 0).empty());
}

TEST(Split, TheGradientsOfThePartsLieOneAfterTheOther) {
  Tape tape;
  const Tensor x = tape.watch(f64({1, 2, 3, 4}));
  const std::vector<Tensor> parts = split(x, {3, 1}, 0);
  expect_exactly(tape.backward(std::vector<Root>{{parts[0], f64({5, 6, 7})}, {parts[1], f64({8})}}).of(x), {4},
                 {5, 6, 7, 8});
}

TEST(Split, ErrorsNameWhatMustHold) {
  const Tensor x = ones({2, 6});
  EXPECT_EQ(error_of([&] {
              split(x, {2, 3}, 1);
            }),
            "split: sizes must not be negative and add up to axis 1; got [2, 3] for x [2, 6]");
  EXPECT_EQ(error_of([&] {
              split(x, {8, -2}, -1);
            }),
            "split: sizes must not be negative and add up to axis 1; got [8, -2] for x [2, 6]");
  EXPECT_EQ(
      error_of([&] {
        split(x, {to_end, to_end, 8}, 1);
      }),
      "split: sizes must not be negative and add up to axis 1; got [9223372036854775807, 9223372036854775807, 8] for x "
      "[2, 6]");
  EXPECT_EQ(error_of([&] { split(x, 4, 1); }), "split: parts must divide axis 1; got 4 for x [2, 6]");
  EXPECT_EQ(error_of([&] { split(x, 0, 0); }), "split: parts must divide axis 0; got 0 for x [2, 6]");
  EXPECT_EQ(error_of([&] { split(zeros({0}), Index{1} << 40, 0); }),
            "split: parts must divide axis 0; got 1099511627776 for x [0]");
  EXPECT_EQ(error_of([&] { split(x, 2, 2); }), "split: axis must be in [-2, 2); got 2 for shape [2, 6]");
}

TEST(RepeatInterleave, EachElementSeveralTimesInARow) {
  const Tensor x = f64({{1, 2}, {3, 4}});
  expect_exactly(repeat_interleave(x, 2, 0), {4, 2}, {1, 2, 1, 2, 3, 4, 3, 4});
  expect_exactly(repeat_interleave(x, 3, -1), {2, 6}, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
  expect_exactly(repeat_interleave(x, 0, 1), {2, 0}, {});
  expect_exactly(repeat_interleave(x, 1, 1), {2, 2}, {1, 2, 3, 4});
  Tape tape;
  const Tensor watched = tape.watch(f64({1, 2}));
  expect_exactly(tape.backward(repeat_interleave(watched, 3, 0), f64({1, 2, 4, 8, 16, 32})).of(watched), {2}, {7, 56});
}

TEST(RepeatInterleave, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { repeat_interleave(ones({2}), -1, 0); }),
            "repeat_interleave: count must not be negative; got -1");
  EXPECT_EQ(error_of([] { repeat_interleave(ones({2}), 2, 1); }),
            "repeat_interleave: axis must be in [-1, 1); got 1 for shape [2]");
  EXPECT_EQ(error_of([] {
              repeat_interleave(ones({1, 1, 1, 1, 1, 1, 1, 2}), 2, 0);
            }),
            "repeat_interleave: x must have at most 7 axes; got [1, 1, 1, 1, 1, 1, 1, 2]");
  EXPECT_EQ(
      error_of([] {
        repeat_interleave(zeros({0, 4}), Index{1} << 62, 1);
      }),
      "repeat_interleave: the repeated axis must not exceed 2^60 elements; got count 4611686018427387904 for axis 1 "
      "of x [0, 4]");
}

TEST(Flip, ReversesTheOrderAlongAxes) {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  expect_exactly(flip(x, 1), {2, 3}, {3, 2, 1, 6, 5, 4});
  expect_exactly(flip(x, 0), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect_exactly(flip(x, {0, -1}), {2, 3}, {6, 5, 4, 3, 2, 1});
  expect_exactly(flip(x, {}), {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_exactly(flip(transpose(x), 0), {3, 2}, {3, 6, 2, 5, 1, 4});
  expect_exactly(flip(slice(x, 1, 0, 3, 2), 1), {2, 2}, {3, 1, 6, 4});
  expect_exactly(flip(x > 2.0, 0), {2, 3}, {1, 1, 1, 0, 0, 1});
  expect_exactly(flip(arange(3), 0), {3}, {2, 1, 0});
  expect_exactly(flip(zeros({0, 2}), {0, 1}), {0, 2}, {});
}

TEST(Flip, TwiceIsTheTensorItself) {
  // Long enough for every way of copying: rows, tiles, many threads.
  const Tensor x = uniform(Key{.seed = 9}, {70, 90, 33});
  for (const Tensor& y : {x, transpose(x, 0, 2), permute(x, {1, 2, 0}), slice(x, 2, 1, to_end, 2)})
    for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}, Axes{0, 1, 2}}) {
      const Tensor once = flip(y, axes);
      EXPECT_EQ(flip(once, axes).to_doubles(), y.to_doubles()) << to_string(y.shape()) << " " << to_string(axes);
      EXPECT_NE(once.to_doubles(), y.to_doubles());
    }
}

TEST(Flip, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { flip(ones({2}), 1); }), "flip: axis must be in [-1, 1); got 1 for shape [2]");
  EXPECT_EQ(error_of([] { flip(ones({2, 3}), {1, -1}); }), "flip: axes must differ; got {1, -1} for shape [2, 3]");
  EXPECT_EQ(error_of([] { flip(Tensor(), 0); }),
            "flip: x must hold a value; got an empty handle; assign a tensor to it first");
}

TEST(Rearrange, MoreOfItKeepsNothingForBackward) {
  Tape tape;
  const Tensor x = tape.watch(ones({2, 3}, DType::f64));
  const Tensor y = flip(repeat_interleave(stack({x, x}, 0), 2, 1), {0});
  EXPECT_EQ(tape.saved_bytes(), 0);
  expect_exactly(tape.backward(sum(y)).of(x), {2, 3}, std::vector<double>(6, 4.0));
}

}  // namespace
}  // namespace capstan::test
