// Gathers, running sums and places of extremes against plain loops, for any shape, axis and strides.
#include <capstan/ops/kernels/arg.h>
#include <capstan/ops/kernels/gather.h>
#include <capstan/ops/kernels/scan.h>

#include "ops/kernels/arrays.h"

namespace capstan::kernels::test {
namespace {

/// Row-major positions along `axis`: element j of row `row`.
struct Rows {
  Index length, inner, rows;
  Rows(const Shape& shape, int axis) : length(shape[axis]), inner(1), rows(1) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (i > axis) inner *= shape[i];
      if (i != axis) rows *= shape[i];
    }
  }
  Index at(Index row, Index j) const { return (row / inner * length + j) * inner + row % inner; }
};

/// A shape of at least one axis, and one of its axes.
std::pair<Shape, int> shape_and_axis(Random& random) {
  Shape shape = random_shape(random, 4, 9);
  if (shape.rank() == 0) shape.push_back(pick(random, 0, 9));
  return {shape, static_cast<int>(pick(random, 0, shape.rank() - 1))};
}

TEST(GatherKernels, GatherAndScatterAddAlongAnyAxisAndStrides) {
  Random random(1);
  for (int i = 0; i < 400; ++i) {
    auto [shape, axis] = shape_and_axis(random);
    if (shape[axis] == 0) continue;
    Shape taken = shape;
    taken.set(axis, pick(random, 0, 40));
    Array<double> x = strided<double>(shape, random), y(taken), back(shape), src = strided<double>(taken, random);
    Array<std::int32_t> ids = strided<std::int32_t>(taken, random);
    for (Index j = 0; j < ids.elements(); ++j) ids[j] = static_cast<std::int32_t>(pick(random, 0, shape[axis] - 1));
    randomize(x, random), randomize(src, random), back.fill_all(99);
    gather(x.in(), axis, ids.in(), y.out());
    scatter_add(src.in(), axis, ids.in(), back.out());
    const Rows from(shape, axis), to(taken, axis);
    std::vector<double> want(static_cast<std::size_t>(shape.elements()));
    for (Index row = 0; row < to.rows; ++row)
      for (Index m = 0; m < to.length; ++m) {
        const Index place = from.at(row, ids[to.at(row, m)]);
        ASSERT_EQ(y[to.at(row, m)], x[place]) << to_string(shape) << " axis " << axis;
        want[static_cast<std::size_t>(place)] += src[to.at(row, m)];
      }
    // In order along the axis, so equal to the last bit.
    for (Index j = 0; j < shape.elements(); ++j)
      ASSERT_EQ(back[j], want[static_cast<std::size_t>(j)]) << to_string(shape) << " axis " << axis;
  }
}

TEST(GatherKernels, SumsOfF32AreRoundedOnce) {
  // 1e8 and then a million ones, all to one place: a sum in f32 would stay at 1e8.
  constexpr Index count = 1'000'001;
  Array<float> src(Shape{count}), y(Shape{2});
  Array<std::int32_t> ids(Shape{count});
  src.fill_all(1), ids.fill_all(1);
  src[0] = 1e8f;
  scatter_add(src.in(), 0, ids.in(), y.out());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 101000000.0f);
}

template <class T>
void expect_scans(Random& random) {
  auto [shape, axis] = shape_and_axis(random);
  Array<T> x = strided<T>(shape, random), up(shape), down(shape);
  randomize(x, random);
  cumsum(x.in(), axis, false, up.out());
  cumsum(x.in(), axis, true, down.out());
  const Rows rows(shape, axis);
  for (Index row = 0; row < rows.rows; ++row) {
    double left = 0, right = 0;
    for (Index j = 0; j < rows.length; ++j) {
      left += static_cast<double>(x[rows.at(row, j)]);
      right += static_cast<double>(x[rows.at(row, rows.length - 1 - j)]);
      ASSERT_EQ(up[rows.at(row, j)], static_cast<T>(left)) << to_string(shape) << " axis " << axis;
      ASSERT_EQ(down[rows.at(row, rows.length - 1 - j)], static_cast<T>(right)) << to_string(shape) << " axis " << axis;
    }
  }
}

template <class T>
void expect_places(Random& random) {
  auto [shape, axis] = shape_and_axis(random);
  if (shape[axis] == 0) return;
  Shape kept = shape;
  kept.set(axis, 1);
  Array<T> x = strided<T>(shape, random);
  for (Index i = 0; i < x.elements(); ++i) x[i] = static_cast<T>(pick(random, -2, 2));  // with ties
  Array<std::int32_t> largest(kept), smallest(kept);
  arg(Extreme::largest, x.in(), axis, largest.out());
  arg(Extreme::smallest, x.in(), axis, smallest.out());
  const Rows rows(shape, axis);
  for (Index row = 0; row < rows.rows; ++row) {
    Index top = 0, bottom = 0;
    for (Index j = 0; j < rows.length; ++j) {
      if (x[rows.at(row, j)] > x[rows.at(row, top)]) top = j;
      if (x[rows.at(row, j)] < x[rows.at(row, bottom)]) bottom = j;
    }
    ASSERT_EQ(largest[row], top) << to_string(shape) << " axis " << axis;
    ASSERT_EQ(smallest[row], bottom) << to_string(shape) << " axis " << axis;
  }
}

TEST(ScanKernels, AnyShapeAxisAndStride) {
  Random random(2);
  for (int i = 0; i < 200; ++i)
    expect_scans<float>(random), expect_scans<double>(random), expect_scans<std::int32_t>(random);
}

TEST(ArgKernels, AnyShapeAxisAndStride) {
  Random random(3);
  for (int i = 0; i < 200; ++i)
    expect_places<float>(random), expect_places<double>(random), expect_places<std::int32_t>(random);
}

TEST(GatherKernels, SameBytesForAnyThreadCount) {
  Random random(4);
  Array<float> x(Shape{300, 40, 30});
  randomize(x, random);
  for (const int axis : {0, 1, 2}) {
    SCOPED_TRACE(axis);
    Shape kept = x.shape();
    kept.set(axis, 1);
    expect_same_bytes(Region::reduce, [&] {
      Array<float> y(x.shape());
      cumsum(x.in(), axis, axis == 1, y.out());
      return y.bytes();
    });
    expect_same_bytes(Region::reduce, [&] {
      Array<std::int32_t> y(kept);
      arg(Extreme::smallest, x.in(), axis, y.out());
      return y.bytes();
    });
  }
}

}  // namespace
}  // namespace capstan::kernels::test
