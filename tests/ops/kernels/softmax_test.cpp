#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/softmax.h>

#include <algorithm>

namespace capstan::kernels::test {
namespace {

/// Positions of the elements of row-major row `row` along `axis`.
std::vector<Index> row_places(const Shape& shape, int axis, Index row) {
  Index inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  std::vector<Index> places;
  for (Index j = 0; j < shape[axis]; ++j) places.push_back((row / inner * shape[axis] + j) * inner + row % inner);
  return places;
}

template <class T>
void expect_softmax(const Array<T>& x, int axis, const Array<T>& dy, double tolerance) {
  const Shape& shape = x.shape();
  Array<T> y(shape), log_y(shape), dx(shape), log_dx(shape);
  softmax(x.in(), axis, y.out());
  log_softmax(x.in(), axis, log_y.out());
  softmax_backward(y.in(), dy.in(), axis, dx.out());
  log_softmax_backward(log_y.in(), dy.in(), axis, log_dx.out());
  Shape kept = shape;
  kept.set(axis, 1);
  Array<T> log_sums(kept), ones(kept), weights(shape);
  ones.fill_all(1);
  logsumexp(x.in(), axis, log_sums.out());
  logsumexp_backward(x.in(), log_sums.in(), ones.in(), axis, weights.out());
  const Index rows = shape.elements() == 0 ? 0 : shape.elements() / shape[axis];
  for (Index row = 0; row < rows; ++row) {
    const std::vector<Index> at = row_places(shape, axis, row);
    double largest = -INFINITY, sum = 0, dot = 0, total = 0;
    for (const Index i : at) largest = std::max(largest, static_cast<double>(x[i]));
    for (const Index i : at) sum += std::exp(static_cast<double>(x[i]) - largest);
    const bool not_a_number = std::any_of(at.begin(), at.end(), [&](Index i) { return std::isnan(x[i]); });
    expect_near(static_cast<double>(log_sums[row]),
                not_a_number          ? NAN
                : std::isinf(largest) ? largest
                                      : largest + std::log(sum),
                tolerance, tolerance);
    for (const Index i : at) {
      if (largest == -INFINITY && !not_a_number) {
        EXPECT_EQ(weights[i], 0);
      } else {
        expect_near(static_cast<double>(weights[i]), static_cast<double>(y[i]), 0, 0);
      }
    }
    for (const Index i : at) {
      const double p = std::exp(static_cast<double>(x[i]) - largest) / sum;
      expect_near(static_cast<double>(y[i]), p, tolerance, 1e-37);
      expect_near(static_cast<double>(log_y[i]), static_cast<double>(x[i]) - largest - std::log(sum), tolerance,
                  tolerance);
      dot += p * static_cast<double>(dy[i]);
      total += static_cast<double>(dy[i]);
    }
    if (std::isnan(sum)) continue;
    for (const Index i : at) {
      const double p = std::exp(static_cast<double>(x[i]) - largest) / sum;
      expect_near(static_cast<double>(dx[i]), p * (static_cast<double>(dy[i]) - dot), tolerance, 4 * tolerance);
      expect_near(static_cast<double>(log_dx[i]), static_cast<double>(dy[i]) - p * total, tolerance,
                  tolerance * (4 + std::abs(total)));
    }
    if (testing::Test::HasFailure()) return;
  }
}

template <class T>
class SoftmaxKernels : public testing::Test {
 protected:
  static constexpr double tolerance = 20 * epsilon<T>;
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxKernels, Floats);

TYPED_TEST(SoftmaxKernels, AnyAxisShapeAndStride) {
  for_each_target([] {
    Random random(1);
    for (int i = 0; i < 150; ++i) {
      Shape shape = random_shape(random, 3, 12);
      shape.push_back(pick(random, 0, 30));
      Array<TypeParam> x = strided<TypeParam>(shape, random), dy = strided<TypeParam>(shape, random);
      randomize(x, random, 3), randomize(dy, random);
      expect_softmax(x, static_cast<int>(pick(random, 0, shape.rank() - 1)), dy, TestFixture::tolerance);
      if (testing::Test::HasFailure()) return;
    }
  });
}

/// Of each row the elements that are kept, softmaxed by definition; the others are NaN in x and dy.
template <class T>
void expect_masked(Array<T>& x, const Array<bool>& keep, int axis, Array<T>& dy, double tolerance) {
  const Shape& shape = x.shape();
  for (Index i = 0; i < shape.elements(); ++i)
    if (!keep[i]) x[i] = dy[i] = std::numeric_limits<T>::quiet_NaN();
  Array<T> y(shape), dx(shape);
  masked_softmax(x.in(), keep.in(), axis, y.out());
  masked_softmax_backward(y.in(), keep.in(), dy.in(), axis, dx.out());
  const Index rows = shape.elements() == 0 ? 0 : shape.elements() / shape[axis];
  for (Index row = 0; row < rows; ++row) {
    double sum = 0, dot = 0;
    const std::vector<Index> at = row_places(shape, axis, row);
    for (const Index i : at)
      if (keep[i]) sum += std::exp(static_cast<double>(x[i]));
    for (const Index i : at)
      if (keep[i]) dot += std::exp(static_cast<double>(x[i])) / sum * static_cast<double>(dy[i]);
    for (const Index i : at) {
      const double p = keep[i] ? std::exp(static_cast<double>(x[i])) / sum : 0;
      expect_near(static_cast<double>(y[i]), p, keep[i] ? tolerance : 0, 0);
      expect_near(static_cast<double>(dx[i]), keep[i] ? p * (static_cast<double>(dy[i]) - dot) : 0,
                  keep[i] ? tolerance : 0, keep[i] ? 4 * tolerance : 0);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(SoftmaxKernels, OfWhatIsKeptOnAnyAxisShapeAndStride) {
  for_each_target([] {
    Random random(5);
    for (int i = 0; i < 200; ++i) {
      Shape shape = random_shape(random, 3, 12);
      shape.push_back(pick(random, 0, 40));
      Array<TypeParam> x = strided<TypeParam>(shape, random), dy = strided<TypeParam>(shape, random);
      Array<bool> keep = strided<bool>(shape, random);
      randomize(x, random, 3), randomize(dy, random);
      const Index likely = pick(random, 0, 4);  // 0: rows without any; 4: nearly all
      for (Index j = 0; j < shape.elements(); ++j) keep[j] = pick(random, 0, 4) < likely;
      expect_masked(x, keep, static_cast<int>(pick(random, 0, shape.rank() - 1)), dy, TestFixture::tolerance);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(SoftmaxKernels, OfWhatIsKeptInStretchedMasks) {
  for_each_target([] {
    Random random(6);
    const Shape shape{2, 3, 5, 21};
    for (const Shape& small : {Shape{1, 1, 5, 21}, Shape{2, 1, 1, 21}, Shape{1, 1, 5, 1}, Shape{1, 3, 1, 21}}) {
      Array<bool> mask(small);
      for (Index i = 0; i < mask.elements(); ++i) mask[i] = pick(random, 0, 1) == 1;
      const Layout stretched = mask.layout().broadcast_to(shape);
      Array<bool> keep(stretched, small.elements());
      std::copy_n(mask.data(), small.elements(), keep.data());
      Array<TypeParam> x(shape), dy(shape);
      randomize(x, random, 3), randomize(dy, random);
      expect_masked(x, keep, 3, dy, TestFixture::tolerance);
      expect_masked(x, keep, 2, dy, TestFixture::tolerance);
    }
  });
}

TYPED_TEST(SoftmaxKernels, RowsOfAnyLengthThatBeginWithMinusInfinity) {
  for_each_target([] {
    Random random(2);
    for (Index length = 1; length <= 70; ++length)
      for (const Index masked : {Index{0}, Index{1}, length / 2, length - 1, length}) {
        Array<TypeParam> x(Shape{2, length}), dy(Shape{2, length});
        randomize(x, random, 5), randomize(dy, random);
        for (Index i = 0; i < masked; ++i) x[i] = -std::numeric_limits<TypeParam>::infinity();
        expect_softmax(x, 1, dy, TestFixture::tolerance);
        if (testing::Test::HasFailure()) return;
      }
  });
}

TYPED_TEST(SoftmaxKernels, LongRowsAndLargeLogits) {
  for_each_target([] {
    Random random(3);
    Array<TypeParam> x(Shape{2, 5000}), dy(Shape{2, 5000});
    randomize(x, random, 3, 1000), randomize(dy, random);
    expect_softmax(x, 1, dy, std::is_same_v<TypeParam, float> ? 5e-5 : 1e-12);
  });
}

TYPED_TEST(SoftmaxKernels, Infinities) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  for_each_target([&] {
    const Array<T> x(Shape{4, 2}, {0, -inf, 0, inf, -inf, -inf, NAN, 1});
    Array<T> y(Shape{4, 2}), log_y(Shape{4, 2});
    softmax(x.in(), 1, y.out());
    log_softmax(x.in(), 1, log_y.out());
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(log_y[0], 0);
    EXPECT_EQ(log_y[1], -inf);
    for (Index i = 2; i < 8; ++i) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
      EXPECT_TRUE(std::isnan(log_y[i])) << i;
    }
  });
}

TYPED_TEST(SoftmaxKernels, KnownValues) {
  using T = TypeParam;
  Array<T> x(Shape{3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), y(Shape{4, 3});
  const Layout turned = x.layout().transposed(0, 1);
  softmax({x.data(), &turned, dtype_of<T>}, 1, y.out());
  expect_near(static_cast<double>(y[0]), 0.00032932, 0, 1e-8);
  expect_near(static_cast<double>(y[1]), 0.01798029, 0, 1e-8);
  expect_near(static_cast<double>(y[2]), 0.98169035, 0, 1e-7);
  const Array<T> two(Shape{2}, {0.1, 0.9}), up(Shape{2}, {1, 1});
  Array<T> log_y(Shape{2}), dx(Shape{2});
  log_softmax(two.in(), 0, log_y.out());
  log_softmax_backward(log_y.in(), up.in(), 0, dx.out());
  expect_near(static_cast<double>(dx[0]), 0.37995, 0, 1e-5);
  expect_near(static_cast<double>(dx[1]), -0.37995, 0, 1e-5);
}

TYPED_TEST(SoftmaxKernels, SliceOfZerosAndLengthOneGiveExactZeros) {
  using T = TypeParam;
  Random random(4);
  Array<T> x(Shape{4, 10}), wide(Shape{4, 20}), y(Shape{4, 10}), dx(Shape{4, 10});
  randomize(x, random), randomize(wide, random);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 10; ++j) wide[i * 20 + j] = 0;
  const Layout zeros = wide.layout().sliced(1, 0, 10);
  log_softmax(x.in(), 1, y.out());
  log_softmax_backward(y.in(), {wide.data(), &zeros, dtype_of<T>}, 1, dx.out());
  for (Index i = 0; i < 40; ++i) EXPECT_EQ(dx[i], 0);
  Array<T> single(Shape{5, 1, 24}), log_single(Shape{5, 1, 24}), up(Shape{5, 1, 24}), down(Shape{5, 1, 24});
  randomize(single, random), randomize(up, random);
  log_softmax(single.in(), 1, log_single.out());
  log_softmax_backward(log_single.in(), up.in(), 1, down.out());
  for (Index i = 0; i < 120; ++i) {
    EXPECT_EQ(log_single[i], 0);
    EXPECT_EQ(down[i], 0);
  }
}

TYPED_TEST(SoftmaxKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(5);
  Array<T> x(Shape{100, 37, 20}), dy(Shape{100, 37, 20});
  randomize(x, random), randomize(dy, random);
  for (const int axis : {0, 1, 2})
    expect_same_bytes(Region::softmax, [&] {
      Array<T> y(x.shape()), log_y(x.shape()), dx(x.shape()), log_dx(x.shape());
      softmax(x.in(), axis, y.out());
      log_softmax(x.in(), axis, log_y.out());
      softmax_backward(y.in(), dy.in(), axis, dx.out());
      log_softmax_backward(log_y.in(), dy.in(), axis, log_dx.out());
      return y.bytes() + log_y.bytes() + dx.bytes() + log_dx.bytes();
    });
}

}  // namespace
}  // namespace capstan::kernels::test
