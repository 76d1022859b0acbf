#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/reduce.h>

namespace capstan::kernels::test {
namespace {

Shape kept_shape(const Shape& shape, AxisMask mask, bool keep_dims) {
  Shape kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!(mask & axis_bit(axis))) {
      kept.push_back(shape[axis]);
    } else if (keep_dims) {
      kept.push_back(1);
    }
  }
  return kept;
}

/// Output of logical element i of x: its place among the kept axes.
Index kept_place(const Shape& shape, AxisMask mask, Index i) {
  Index place = 0, scale = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    if (!(mask & axis_bit(axis))) {
      place += i % shape[axis] * scale;
      scale *= shape[axis];
    }
    i /= shape[axis];
  }
  return place;
}

template <class T>
void expect_reductions(Random& random, int most_rank, Index most_size, Index most_elements) {
  const Shape shape = random_shape(random, most_rank, most_size);
  if (shape.elements() > most_elements) return;
  const AxisMask mask = static_cast<AxisMask>(random()) & all_axes(shape.rank());
  Array<T> x = strided<T>(shape, random);
  randomize(x, random);
  Array<T> total(kept_shape(shape, mask, random() % 2)), largest(kept_shape(shape, mask, random() % 2));
  Array<T> smallest(kept_shape(shape, mask, random() % 2));
  sum(x.in(), mask, total.out());
  max(x.in(), mask, largest.out());
  min(x.in(), mask, smallest.out());
  std::vector<double> sums(static_cast<std::size_t>(total.elements())), sizes(sums.size());
  std::vector<double> tops(sums.size(), std::is_same_v<T, std::int32_t> ? -2147483648.0 : -INFINITY);
  std::vector<double> bottoms(sums.size(), std::is_same_v<T, std::int32_t> ? 2147483647.0 : INFINITY);
  for (Index i = 0; i < x.elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(kept_place(shape, mask, i));
    sums[at] += static_cast<double>(x[i]);
    sizes[at] += std::abs(static_cast<double>(x[i]));
    tops[at] = std::max(tops[at], static_cast<double>(x[i]));
    bottoms[at] = std::min(bottoms[at], static_cast<double>(x[i]));
  }
  for (Index i = 0; i < total.elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    const double allowed = std::is_same_v<T, float> ? 6e-8 * std::abs(sums[at]) + 1e-13 * sizes[at] : 1e-13 * sizes[at];
    ASSERT_LE(std::abs(static_cast<double>(total[i]) - sums[at]), allowed) << to_string(shape) << " mask " << mask;
    ASSERT_EQ(static_cast<double>(largest[i]), tops[at]) << to_string(shape) << " mask " << mask;
    ASSERT_EQ(static_cast<double>(smallest[i]), bottoms[at]) << to_string(shape) << " mask " << mask;
  }
}

TEST(ReduceKernels, SumMaxAndMinOverAnyAxesAndStrides) {
  for_each_target([] {
    Random random(1);
    for (int i = 0; i < 300; ++i) {
      expect_reductions<float>(random, 5, 9, 50000);
      expect_reductions<double>(random, 5, 9, 50000);
      expect_reductions<std::int32_t>(random, 5, 9, 50000);
    }
    for (int i = 0; i < 20; ++i) {
      expect_reductions<float>(random, 2, 700, 300000);
      expect_reductions<double>(random, 3, 100, 300000);
    }
  });
}

TEST(ReduceKernels, SumOfFloatsIsStable) {
  Array<float> x(Shape{250, 250}), y(Shape{});
  x.fill_all(1.23456f);
  sum(x.in(), all_axes(2), y.out());
  EXPECT_NEAR(static_cast<double>(y[0]), 77160, 0.01);
  // Many small ones beside a large one, by runs and by rows.
  Array<float> tall(Shape{100001, 8}), columns(Shape{8});
  tall.fill_all(1);
  for (Index j = 0; j < 8; ++j) tall[j] = 1e8f;
  sum(tall.in(), axis_bit(0), columns.out());
  for (Index j = 0; j < 8; ++j) EXPECT_EQ(columns[j], 100100000.0f);
}

TEST(ReduceKernels, EmptyAndScalar) {
  Array<double> none(Shape{3, 0}), y(Shape{3}), one(Shape{}), total(Shape{});
  y.fill_all(5);
  sum(none.in(), axis_bit(1), y.out());
  for (Index i = 0; i < 3; ++i) EXPECT_EQ(y[i], 0);
  max(none.in(), axis_bit(1), y.out());
  for (Index i = 0; i < 3; ++i) EXPECT_EQ(y[i], -INFINITY);
  min(none.in(), axis_bit(1), y.out());
  for (Index i = 0; i < 3; ++i) EXPECT_EQ(y[i], INFINITY);
  one[0] = 3;
  sum(one.in(), 0, total.out());
  EXPECT_EQ(total[0], 3);
  Array<double> nothing(Shape{0});
  sum(none.in(), axis_bit(0), nothing.out());
}

TEST(ReduceKernels, MaxAndMinPassNaNOn) {
  for_each_target([] {
    for (Index size : {1, 5, 40, 5000})
      for (Index at : {Index{0}, size / 2, size - 1})
        for (const int axis : {0, 1}) {
          Array<float> x(axis == 1 ? Shape{1, size} : Shape{size, 9}), y(axis == 1 ? Shape{1} : Shape{9});
          x[axis == 1 ? at : at * 9 + 4] = NAN;
          max(x.in(), axis_bit(axis), y.out());
          EXPECT_TRUE(std::isnan(y[axis == 1 ? 0 : 4]));
          if (axis == 0) { EXPECT_EQ(y[3], 0); }
          min(x.in(), axis_bit(axis), y.out());
          EXPECT_TRUE(std::isnan(y[axis == 1 ? 0 : 4]));
          if (axis == 0) { EXPECT_EQ(y[3], 0); }
        }
  });
}

TEST(ReduceKernels, ScaledSumIsAMean) {
  const Array<float> x(Shape{2, 3}, {1, 2, 4, 5, 6, 7});
  Array<float> y(Shape{2});
  scaled_sum(x.in(), axis_bit(1), 1.0 / 3, y.out());
  EXPECT_EQ(y[0], static_cast<float>(7.0 / 3));
  EXPECT_EQ(y[1], 6);
}

TEST(ReduceKernels, SumToUndoesABroadcast) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = random_shape(random, 4, 6);
    const Shape smaller = broadcastable(shape, random);
    Array<double> x = strided<double>(shape, random), y(smaller);
    randomize(x, random);
    std::vector<double> want(static_cast<std::size_t>(y.elements()));
    for (Index j = 0; j < x.elements(); ++j) want[static_cast<std::size_t>(broadcast_place(smaller, shape, j))] += x[j];
    sum_to(x.in(), y.out());
    for (Index j = 0; j < y.elements(); ++j) expect_near(y[j], want[static_cast<std::size_t>(j)], 1e-12, 1e-12);
  }
}

TEST(ReduceKernels, NormWithoutOverflowOrUnderflow) {
  for_each_target([] {
    expect_near(norm(Array<double>(Shape{2}, {3e200, 4e200}).in()), 5e200, 1e-15, 0);
    expect_near(norm(Array<double>(Shape{2}, {3e-300, 4e-300}).in()), 5e-300, 1e-15, 0);
    expect_near(norm(Array<double>(Shape{1}, {5e-324}).in()), 5e-324, 0, 0);
    expect_near(norm(Array<float>(Shape{2}, {3e38, 1e38}).in()), std::hypot(3e38, 1e38), 1e-7, 0);
    EXPECT_EQ(norm(Array<double>(Shape{3}, {0, 0, 0}).in()), 0);
    EXPECT_EQ(norm(Array<double>(Shape{0}).in()), 0);
    EXPECT_EQ(norm(Array<double>(Shape{2}, {1, -INFINITY}).in()), INFINITY);
    EXPECT_TRUE(std::isnan(norm(Array<double>(Shape{2}, {NAN, INFINITY}).in())));
  });
}

TEST(ReduceKernels, SameBytesForAnyThreadCount) {
  Random random(3);
  for (const Shape& shape : {Shape{200000}, Shape{3000, 70}, Shape{70, 3000}, Shape{40, 50, 60}})
    for (AxisMask mask = 1; mask <= all_axes(shape.rank()); ++mask) {
      SCOPED_TRACE(testing::Message() << to_string(shape) << " mask " << mask);
      Array<double> x(shape);
      randomize(x, random);
      expect_same_bytes(Region::reduce, [&] {
        Array<double> y(kept_shape(shape, mask, false));
        sum(x.in(), mask, y.out());
        return y.bytes();
      });
    }
}

}  // namespace
}  // namespace capstan::kernels::test
