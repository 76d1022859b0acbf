// ops/rearrange.h: values, which results are views, gradients worked out by hand, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }
bool shares(const Tensor& a, const Tensor& b) { return a.view().bytes == b.view().bytes; }

TEST(Reshape, IsAViewWhereStridesAllowIt) {
  const Tensor x = reshape(arange(24), Shape{2, 3, 4});
  expect_exactly(reshape(x, {4, 6}), {4, 6}, arange(24).to_doubles());
  EXPECT_TRUE(shares(reshape(x, {4, 6}), x));
  EXPECT_TRUE(shares(reshape(slice(x, 2, 0, 2), {6, 2}), x));
  const Tensor turned = transpose(x, 0, 1);
  EXPECT_FALSE(shares(reshape(turned, {6, 4}), x));
  expect_exactly(reshape(turned, {6, 4}), {6, 4}, turned.to_doubles());
  EXPECT_TRUE(reshape(turned, {6, 4}).contiguous());
}

TEST(Reshape, OneSizeMayBeLeftOpen) {
  const Tensor x = reshape(arange(24), {2, 3, -1});
  EXPECT_EQ(to_string(x.shape()), "[2, 3, 4]");
  EXPECT_EQ(to_string(reshape(x, {-1}).shape()), "[24]");
  EXPECT_EQ(to_string(reshape(x, {-1, 4}).shape()), "[6, 4]");
  EXPECT_EQ(to_string(reshape(zeros({0, 3}), {-1, 3}).shape()), "[0, 3]");
  EXPECT_EQ(to_string(reshape(ones({1, 1}), {}).shape()), "[]");
}

TEST(Reshape, ErrorsNameWhatMustHold) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(error_of([&] { reshape(x, Shape{4}); }),
            "reshape: element counts must be equal; got x [2, 3] (6 elements) for shape [4] (4)");
  EXPECT_EQ(error_of([&] {
              reshape(x, {-1, -1});
            }),
            "reshape: one size may be -1, where the others divide the element count; got sizes [-1, -1] for x [2, 3]");
  EXPECT_EQ(error_of([&] {
              reshape(x, {4, -1});
            }),
            "reshape: one size may be -1, where the others divide the element count; got sizes [4, -1] for x [2, 3]");
  EXPECT_EQ(error_of([&] {
              reshape(zeros({0, 3}), {0, -1});
            }),
            "reshape: one size may be -1, where the others divide the element count; got sizes [0, -1] for x [0, 3]");
  EXPECT_EQ(error_of([&] { reshape(x, {-2, -3}); }), "shape: sizes must not be negative; got -2");
}

TEST(Transpose, SwapsTwoAxesWithoutCopying) {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  expect_exactly(transpose(x), {3, 2}, {1, 4, 2, 5, 3, 6});
  EXPECT_TRUE(shares(transpose(x), x));
  const Tensor cube = reshape(arange(6), Shape{1, 2, 3});
  expect_exactly(transpose(cube, 0, -1), {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(error_of([] { transpose(ones({3})); }), "transpose: axis must be in [-1, 1); got -2 for shape [3]");
}

TEST(Permute, AxisIOfTheResultIsAxisAxesI) {
  const Tensor x = reshape(arange(24), Shape{2, 3, 4});
  const Tensor y = permute(x, {2, 0, 1});
  EXPECT_EQ(to_string(y.shape()), "[4, 2, 3]");
  EXPECT_EQ(y.at({3, 1, 2}), x.at({1, 2, 3}));
  EXPECT_TRUE(shares(y, x));
  Tape tape;
  const Tensor w = tape.watch(zeros({2, 3, 4}, DType::f64));
  const Tensor up = reshape(arange(0, 24, 1, DType::f64), Shape{4, 2, 3});
  const Tensor dw = tape.backward(permute(w, {2, 0, 1}), up).of(w);
  EXPECT_EQ(to_string(dw.shape()), "[2, 3, 4]");
  EXPECT_EQ(dw.at({1, 2, 3}), up.at({3, 1, 2}));
  EXPECT_EQ(dw.at({0, 1, 2}), up.at({2, 0, 1}));
  EXPECT_EQ(error_of([&] { permute(x, {0, 1}); }), "permute: each axis must be named once; got {0, 1} for x [2, 3, 4]");
  EXPECT_EQ(error_of([&] {
              permute(x, {0, 1, -2});
            }),
            "permute: each axis must be named once; got {0, 1, -2} for x [2, 3, 4]");
  EXPECT_EQ(error_of([&] { permute(x, {0, 1, 3}); }), "permute: axis must be in [-3, 3); got 3 for shape [2, 3, 4]");
}

TEST(BroadcastTo, StretchesWithStridesOfZero) {
  const Tensor x = f64({{1}, {2}});
  const Tensor y = broadcast_to(x, Shape{3, 2, 2});
  expect_exactly(y, {3, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2});
  EXPECT_TRUE(shares(y, x));
  EXPECT_EQ(
      error_of([&] { broadcast_to(x, Shape{2}); }),
      "broadcast_to: x must stretch to the shape (equal sizes, or 1, aligned at the last axis); got x [2, 1] for [2]");
  EXPECT_EQ(
      error_of([&] { broadcast_to(ones({2}), Shape{3}); }),
      "broadcast_to: x must stretch to the shape (equal sizes, or 1, aligned at the last axis); got x [2] for [3]");
}

TEST(Slice, CountsFromBothEnds) {
  const Tensor x = arange(5);
  expect_exactly(slice(x, 0, 1, -1), {3}, {1, 2, 3});
  expect_exactly(slice(x, 0, 0, to_end, 2), {3}, {0, 2, 4});
  expect_exactly(slice(x, 0, 1, 5, 3), {2}, {1, 4});
  expect_exactly(slice(x, 0, -2, to_end), {2}, {3, 4});
  expect_exactly(slice(x, 0, -5, 5), {5}, {0, 1, 2, 3, 4});
  expect_exactly(slice(x, 0, 5, 5), {0}, {});
  expect_exactly(slice(x, 0, 2, 3, to_end), {1}, {2});
  const Tensor rows = reshape(arange(6), {2, 3});
  expect_exactly(slice(rows, -1, 1, 3), {2, 2}, {1, 2, 4, 5});
  EXPECT_TRUE(shares(slice(rows, 1, 1, 3), rows));
}

TEST(Slice, TheGradientIsZeroWhereNothingWasTaken) {
  Tape tape;
  const Tensor x = tape.watch(zeros({2, 6}, DType::f64));
  const Tensor dx = tape.backward(slice(x, 1, 1, 6, 2), f64({{1, 2, 3}, {4, 5, 6}})).of(x);
  expect_exactly(dx, {2, 6}, {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6});
}

TEST(Slice, NeverCutsInSilence) {
  const Tensor x = ones({2, 5});
  EXPECT_EQ(error_of([&] { slice(x, 1, 0, 6); }),
            "slice: start and stop must be in [-5, 5]; got 0 and 6 for axis 1 of x [2, 5]");
  EXPECT_EQ(error_of([&] { slice(x, 1, -6, 2); }),
            "slice: start and stop must be in [-5, 5]; got -6 and 2 for axis 1 of x [2, 5]");
  EXPECT_EQ(error_of([&] { slice(x, -1, 3, -3); }),
            "slice: start must not lie beyond stop; got 3 and -3 for axis 1 of x [2, 5]");
  EXPECT_EQ(error_of([&] { slice(x, 1, 0, 5, 0); }), "slice: step must be at least 1; got 0");
  EXPECT_EQ(error_of([&] { slice(x, 2, 0, 1); }), "slice: axis must be in [-2, 2); got 2 for shape [2, 5]");
}

TEST(Pad, PutsZerosAroundAndBetween) {
  expect_exactly(pad(f64({1, 2}), 0, 1, 2, 3), {7}, {0, 1, 0, 0, 2, 0, 0});
  expect_exactly(pad(f64({{1, 2}, {3, 4}}), 0, 1, 0), {3, 2}, {0, 0, 1, 2, 3, 4});
  expect_exactly(pad(transpose(f64({{1, 2}, {3, 4}})), -1, 0, 1), {2, 3}, {1, 3, 0, 2, 4, 0});
  expect_exactly(pad(zeros({0}), 0, 2, 1), {3}, {0, 0, 0});
  expect_exactly(pad(tensor({1, 1}, DType::boolean), 0, 1, 0), {3}, {0, 1, 1});
  EXPECT_EQ(error_of([] { pad(ones({2}), 0, -1, 0); }),
            "pad: before and after must not be negative and step at least 1; got -1, 0 and 1");
  EXPECT_EQ(error_of([] { pad(ones({2}), 0, 0, 0, to_end); }),
            "pad: the padded axis must not exceed 2^60 elements; got before 0, after 0, step 9223372036854775807 for "
            "axis 0 of x [2]");
}

RC_GTEST_PROP(Pad, IsTheTransposeOfSlice, ()) {
  // ⟨slice(x), y⟩ = ⟨x, pad(y)⟩, and slicing what was padded gives it back.
  const Index size = *rc::gen::inRange<Index>(1, 12), step = *rc::gen::inRange<Index>(1, 5);
  const Index start = *rc::gen::inRange<Index>(0, size), stop = *rc::gen::inRange<Index>(start, size + 1);
  const Tensor x = arange(0, static_cast<double>(size), 1, DType::f64);
  const Tensor part = slice(x, 0, start, stop, step);
  Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor y = part + 1.0;
  const Tensor padded = tape.backward(slice(watched, 0, start, stop, step), y).of(watched);
  RC_ASSERT(sum(part * y).item() == sum(x * padded).item());
  RC_ASSERT(slice(padded, 0, start, stop, step).to_doubles() == y.to_doubles());
}

TEST(Concat, JoinsAlongAnAxis) {
  const Tensor a = f64({{1, 2}, {3, 4}}), b = f64({{5}, {6}});
  expect_exactly(concat({a, b}, 1), {2, 3}, {1, 2, 5, 3, 4, 6});
  expect_exactly(concat({a, transpose(a)}, 0), {4, 2}, {1, 2, 3, 4, 1, 3, 2, 4});
  expect_exactly(concat(std::vector{arange(2), arange(0), arange(1)}, -1), {3}, {0, 1, 0});
  Tape tape;
  const Tensor p = tape.watch(a), q = tape.watch(b);
  const Gradients g = tape.backward(concat({p, q, p}, 1), f64({{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}));
  expect_exactly(g.of(p), {2, 2}, {5, 7, 15, 17});
  expect_exactly(g.of(q), {2, 1}, {3, 8});
}

TEST(Concat, MoreTensorsThanThereAreBitsInAWord) {
  Tape tape;
  std::vector<Tensor> parts;
  for (int i = 0; i < 100; ++i) parts.push_back(tape.watch(full({1}, i, DType::f64)));
  const Tensor all = concat(parts, 0);
  expect_exactly(all, {100}, arange(100).to_doubles());
  const Gradients g = tape.backward(sum(all * all));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(g.of(parts[static_cast<std::size_t>(i)]).item(), 2 * i);
}

TEST(Concat, ErrorsNameWhatMustHold) {
  EXPECT_EQ(error_of([] { concat({}, 0); }), "concat: at least one tensor is needed; got none");
  EXPECT_EQ(error_of([] {
              concat({ones({2, 3}), ones({2, 4})}, 0);
            }),
            "concat: tensors must agree in dtype and in all sizes but that of axis 0; got f32 [2, 3] and, as number 1, "
            "f32 [2, 4]");
  EXPECT_EQ(
      error_of([] {
        concat({ones({2}), ones({2}), ones({2}, DType::f64)}, 0);
      }),
      "concat: tensors must agree in dtype and in all sizes but that of axis 0; got f32 [2] and, as number 2, f64 [2]");
  EXPECT_EQ(error_of([] {
              concat({ones({2}), ones({2, 1})}, 0);
            }),
            "concat: tensors must agree in dtype and in all sizes but that of axis 0; got f32 [2] and, as number 1, "
            "f32 [2, 1]");
  EXPECT_EQ(error_of([] { concat({ones({}), ones({})}, 0); }), "concat: axis must be in [0, 0); got 0 for shape []");
  EXPECT_EQ(error_of([] {
              concat({ones({2}), Tensor()}, 0);
            }),
            "concat: each tensor must hold a value; got an empty handle; assign a tensor to it first");
}

TEST(OneHot, MarksEachId) {
  expect_exactly(one_hot(tensor({1, 0}, DType::i32), 3), {2, 3}, {0, 1, 0, 1, 0, 0});
  EXPECT_EQ(one_hot(tensor({1, 0}, DType::i32), 3).dtype(), DType::f32);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean}) {
    const Tensor ids = tensor({{0, 1}, {2, 0}}, DType::i32);
    const Tensor y = one_hot(transpose(ids), 3, dtype);
    expect_exactly(y, {2, 2, 3}, {1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0});
    EXPECT_EQ(y.dtype(), dtype);
  }
  expect_exactly(one_hot(zeros({0}, DType::i32), 3), {0, 3}, {});
  expect_exactly(one_hot(tensor(1, DType::i32), 2), {2}, {0, 1});
}

TEST(OneHot, AnIdOutOfRangeIsNamedWithItsPlace) {
  EXPECT_EQ(error_of([] {
              one_hot(tensor({{0, 1}, {3, 0}}, DType::i32), 3);
            }),
            "one_hot: ids must be in [0, 3); got 3 at [1, 0]");
  EXPECT_EQ(error_of([] { one_hot(tensor({0, -1}, DType::i32), 3); }), "one_hot: ids must be in [0, 3); got -1 at [1]");
  EXPECT_EQ(error_of([] { one_hot(tensor({0}, DType::i32), 0); }), "one_hot: ids must be in [0, 0); got 0 at [0]");
  EXPECT_EQ(error_of([] { one_hot(ones({2}), 3); }), "one_hot: ids must be i32; got f32; cast it first");
  EXPECT_EQ(error_of([] { one_hot(arange(2), -1); }), "one_hot: classes must not be negative; got -1");
}

TEST(Rearrange, NothingIsKeptForBackwardAndViewsCopyNothing) {
  Tape tape;
  const Tensor x = tape.watch(ones({4, 6}));
  const Tensor view = slice(permute(reshape(transpose(x), Shape{2, 3, 4}), {1, 0, 2}), 1, 0, 1);
  EXPECT_TRUE(shares(view, x));
  const Tensor y = concat({pad(view, 0, 1, 1), broadcast_to(slice(view, 0, 0, 1), Shape{3, 1, 4})}, 0);
  EXPECT_EQ(tape.saved_bytes(), 0);
  EXPECT_EQ(sum(tape.backward(y, broadcast_to(ones({}), y.shape())).of(x)).item(), 24);
}

TEST(OneHot, ACountThatWrapsIsRefused) {
  EXPECT_EQ(test::error_of([] {
              one_hot(tensor({0, 1, 2, 3}, DType::i32), Index{1} << 62);
            }),
            "shape: at most 2^62 elements; got sizes 4 x 4611686018427387904");
}

}  // namespace
}  // namespace capstan
