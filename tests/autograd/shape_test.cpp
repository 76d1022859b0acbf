// Tests of autograd/shape.h: sizes, axes, broadcasting, and every error to the letter.
#include <capstan/autograd/shape.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;

std::vector<Index> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

TEST(Shape, ScalarHasNoAxesAndOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(to_string(scalar), "[]");
  EXPECT_EQ(scalar, Shape({}));
}

TEST(Shape, HoldsSizesOutermostFirst) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape.back(), 5);
  EXPECT_EQ(shape.back(2), 2);
  EXPECT_EQ(shape.elements(), 30);
  EXPECT_EQ(shape.drop_back(), (Shape{2, 3}));
  EXPECT_EQ(shape.drop_back(3), Shape{});
  EXPECT_EQ(to_string(shape), "[2, 3, 5]");
}

TEST(Shape, CopiesAllEightAxes) {
  const Shape shape{1, 2, 3, 4, 5, 6, 7, 8};
  Shape copy{9};
  copy = shape;
  EXPECT_EQ(copy, shape);
  EXPECT_EQ(Shape(shape), shape);
  copy.set(7, 9);
  EXPECT_NE(copy, shape);
  EXPECT_EQ(sizes_of(copy), (std::vector<Index>{1, 2, 3, 4, 5, 6, 7, 9}));
}

TEST(Shape, EqualityNeedsTheSameRank) {
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{}), (Shape{1}));
}

TEST(Shape, SizeZeroIsLegal) {
  EXPECT_EQ((Shape{3, 0, 2}).elements(), 0);
  EXPECT_EQ(to_string(Shape{0}), "[0]");
}

TEST(Shape, PushBackAppends) {
  Shape shape;
  shape.push_back(4);
  shape.push_back(0);
  EXPECT_EQ(shape, (Shape{4, 0}));
}

TEST(Shape, NegativeSizesAreRefused) {
  EXPECT_EQ(error_of([] { Shape{2, -3}; }), "shape: sizes must not be negative; got -3");
  EXPECT_EQ(error_of([] { Shape{}.push_back(-1); }), "shape: sizes must not be negative; got -1");
}

TEST(Shape, NinthAxisIsRefused) {
  EXPECT_EQ(error_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }), "shape: at most 8 axes; got 9");
  EXPECT_EQ(error_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1}.push_back(2); }), "shape: at most 8 axes; got one more");
}

TEST(Shape, ElementCountEndsAtTwoToThe62) {
  const Index half = Index{1} << 31;
  EXPECT_EQ((Shape{half, half}).elements(), Index{1} << 62);
  EXPECT_EQ(error_of([=] {
              Shape{half, half, 2};
            }),
            "shape: at most 2^62 elements; got sizes 2147483648 x 2147483648 x 2");
  EXPECT_EQ(error_of([] { Shape{INT64_MAX}; }), "shape: at most 2^62 elements; got sizes 9223372036854775807");
  // A zero among the sizes does not excuse the others: strides would overflow.
  EXPECT_EQ(error_of([=] {
              Shape{0, half, half, 2};
            }),
            "shape: at most 2^62 elements; got sizes 0 x 2147483648 x 2147483648 x 2");
}

TEST(Shape, AxisCountsFromEitherEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.axis("softmax", 0), 0);
  EXPECT_EQ(shape.axis("softmax", 2), 2);
  EXPECT_EQ(shape.axis("softmax", -1), 2);
  EXPECT_EQ(shape.axis("softmax", -3), 0);
}

TEST(Shape, AxisOutsideIsRefused) {
  const Shape shape{2, 3};
  EXPECT_EQ(error_of([&] { shape.axis("softmax", 2); }), "softmax: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([&] { shape.axis("sum", -3); }), "sum: axis must be in [-2, 2); got -3 for shape [2, 3]");
}

TEST(Broadcast, AlignsAtTheLastAxisAndStretchesOnes) {
  EXPECT_EQ(broadcast("add", {2, 3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {2, 1}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {}, {4, 5}), (Shape{4, 5}));
  EXPECT_EQ(broadcast("add", {8, 1, 6, 1}, {7, 1, 5}), (Shape{8, 7, 6, 5}));
}

TEST(Broadcast, SizeZeroMeetsZeroOrOneOnly) {
  EXPECT_EQ(broadcast("add", {0}, {1}), (Shape{0}));
  EXPECT_EQ(broadcast("add", {2, 0}, {0}), (Shape{2, 0}));
  EXPECT_EQ(broadcast("add", {1, 0}, {4, 1}), (Shape{4, 0}));
  EXPECT_EQ(error_of([] { broadcast("mul", {0}, {2}); }),
            "mul: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [0] and [2]");
}

TEST(Broadcast, OtherSizesAreRefused) {
  EXPECT_EQ(error_of([] {
              broadcast("add", {2, 3}, {4});
            }),
            "add: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2, 3] and [4]");
  EXPECT_EQ(error_of([] {
              broadcast("sub", {2}, {2, 3});
            }),
            "sub: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got [2] and [2, 3]");
}

// Cut a common shape down in two ways (ones, missing leading axes): it must come back, whichever operand is first.
RC_GTEST_PROP(Broadcast, RestoresWhatWasCutFromACommonShape, ()) {
  const auto common = *rc::gen::resize(max_rank, rc::gen::container<std::vector<Index>>(rc::gen::inRange<Index>(0, 5)));
  RC_PRE(common.size() <= max_rank);
  std::vector<Index> a = common, b = common;
  for (std::size_t i = 0; i < common.size(); ++i) {
    const int cut = *rc::gen::inRange(0, 3);
    if (cut == 1) a[i] = 1;
    if (cut == 2) b[i] = 1;
  }
  const auto leading_ones =
      static_cast<std::size_t>(std::find_if(b.begin(), b.end(), [](Index s) { return s != 1; }) - b.begin());
  b.erase(b.begin(), b.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(leading_ones) + 1));
  const Shape shape_a{std::span<const Index>(a)}, shape_b{std::span<const Index>(b)};
  RC_ASSERT(sizes_of(broadcast("add", shape_a, shape_b)) == common);
  RC_ASSERT(sizes_of(broadcast("add", shape_b, shape_a)) == common);
}

}  // namespace
}  // namespace capstan
