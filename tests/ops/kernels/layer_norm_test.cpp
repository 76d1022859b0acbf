// Layer norm and RMS norm against loops in double precision: any strides, targets and threads.
#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/layer_norm.h>

namespace capstan::kernels::test {
namespace {

struct Expected {
  std::vector<double> y, mean, rstd, dx, dweight, dbias;
};

template <class T>
Expected naive(const Array<T>& x, const Array<T>* weight, const Array<T>* bias, double eps, const Array<T>& dy) {
  const Index length = x.shape().back(), rows = x.elements() / length;
  const double n = static_cast<double>(length);
  Expected e;
  e.dweight.resize(static_cast<std::size_t>(length)), e.dbias.resize(static_cast<std::size_t>(length));
  for (Index row = 0; row < rows; ++row) {
    const auto at = [&](const Array<T>& a, Index j) { return static_cast<double>(a[row * length + j]); };
    double mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
    for (Index j = 0; j < length; ++j) mean += at(x, j) / n;
    for (Index j = 0; j < length; ++j) variance += (at(x, j) - mean) * (at(x, j) - mean) / n;
    const double rstd = 1 / std::sqrt(variance + eps);
    const auto normal_at = [&](Index j) { return (at(x, j) - mean) * rstd; };
    const auto g = [&](Index j) { return at(dy, j) * (weight ? static_cast<double>((*weight)[j]) : 1); };
    for (Index j = 0; j < length; ++j) {
      mean_g += g(j) / n;
      mean_gx += g(j) * normal_at(j) / n;
    }
    for (Index j = 0; j < length; ++j) {
      const double scaled = normal_at(j) * (weight ? static_cast<double>((*weight)[j]) : 1);
      e.y.push_back(scaled + (bias ? static_cast<double>((*bias)[j]) : 0));
      e.dx.push_back(rstd * (g(j) - mean_g - normal_at(j) * mean_gx));
      e.dweight[static_cast<std::size_t>(j)] += at(dy, j) * normal_at(j);
      e.dbias[static_cast<std::size_t>(j)] += at(dy, j);
    }
    e.mean.push_back(mean), e.rstd.push_back(rstd);
  }
  return e;
}

template <class T>
void expect_all(const Array<T>& got, const std::vector<double>& want, double tolerance) {
  double largest = 1;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (Index i = 0; i < got.elements(); ++i)
    expect_near(static_cast<double>(got[i]), want[static_cast<std::size_t>(i)], tolerance, tolerance * largest);
}

template <class T>
void expect_layer_norm(const Array<T>& x, const Array<T>* weight, const Array<T>* bias, const Array<T>& dy,
                       double tolerance) {
  const Shape& shape = x.shape();
  const Shape rows = shape.drop_back(), columns{shape.back()};
  Array<T> y(shape), mean(rows), rstd(rows), dx(shape), dweight(columns), dbias(columns);
  const ConstView none;
  layer_norm(x.in(), weight ? weight->in() : none, bias ? bias->in() : none, 1e-5, y.out(), mean.out(), rstd.out());
  layer_norm_backward(x.in(), weight ? weight->in() : none, mean.in(), rstd.in(), dy.in(), dx.out(), dweight.out(),
                      dbias.out());
  const Expected want = naive(x, weight, bias, 1e-5, dy);
  expect_all(y, want.y, tolerance), expect_all(mean, want.mean, tolerance), expect_all(rstd, want.rstd, tolerance);
  expect_all(dx, want.dx, tolerance), expect_all(dweight, want.dweight, tolerance);
  expect_all(dbias, want.dbias, tolerance);

  // Onto what dx holds.
  Array<T> sum = dx.dense(), again(columns), dbias_again(columns);
  layer_norm_backward(x.in(), weight ? weight->in() : none, mean.in(), rstd.in(), dy.in(), sum.out(), again.out(),
                      dbias_again.out(), true);
  std::vector<double> twice = want.dx;
  for (double& value : twice) value *= 2;
  expect_all(sum, twice, tolerance), expect_all(again, want.dweight, tolerance);
}

template <class T>
class LayerNormKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(LayerNormKernels, Floats);

TYPED_TEST(LayerNormKernels, AnyShapeAndStrideWithAndWithoutWeights) {
  using T = TypeParam;
  for_each_target([] {
    Random random(1);
    for (int i = 0; i < 100; ++i) {
      Shape shape = random_shape(random, 3, 9);
      shape.push_back(pick(random, 2, 70));
      Array<T> x = strided<T>(shape, random), dy = strided<T>(shape, random);
      Array<T> weight = strided<T>(Shape{shape.back()}, random), bias(Shape{shape.back()});
      randomize(x, random, 2, 1), randomize(dy, random), randomize(weight, random), randomize(bias, random);
      expect_layer_norm(x, i % 2 ? &weight : nullptr, i % 3 ? &bias : nullptr, dy, 200 * epsilon<T>);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(LayerNormKernels, RowsFarFromZeroKeepTheirDigits) {
  using T = TypeParam;
  for_each_target([] {
    Random random(2);
    Array<T> x(Shape{8, 300}), dy(Shape{8, 300}), weight(Shape{300});
    randomize(x, random, 1, 2000), randomize(dy, random), randomize(weight, random);
    expect_layer_norm<T>(x, &weight, nullptr, dy, std::is_same_v<T, float> ? 5e-6 : 1e-12);
  });
}

TYPED_TEST(LayerNormKernels, ConstantRowsAreFinite) {
  using T = TypeParam;
  Random random(3);
  Array<T> x(Shape{2, 5}), dy(Shape{2, 5});
  for (Index j = 0; j < 5; ++j) x[5 + j] = static_cast<T>(0.1);
  randomize(dy, random);
  expect_layer_norm<T>(x, nullptr, nullptr, dy, std::is_same_v<T, float> ? 1e-4 : 1e-12);
}

TYPED_TEST(LayerNormKernels, KnownGradient) {
  using T = TypeParam;
  const Array<T> x(Shape{1, 4}, {1, 2, 3, 4}), dy(Shape{1, 4}, {1, 0, 0, 0});
  Array<T> y(Shape{1, 4}), mean(Shape{1}), rstd(Shape{1}), dx(Shape{1, 4});
  layer_norm(x.in(), {}, {}, 1e-5, y.out(), mean.out(), rstd.out());
  layer_norm_backward(x.in(), {}, mean.in(), rstd.in(), dy.in(), dx.out(), {}, {});
  const double want[] = {0.2683303, -0.3577684, -0.0894434, 0.1788815};
  for (Index j = 0; j < 4; ++j) expect_near(static_cast<double>(dx[j]), want[j], 0, 5e-7);
}

TYPED_TEST(LayerNormKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(4);
  Array<T> x(Shape{900, 130}), dy(Shape{900, 130}), weight(Shape{130});
  randomize(x, random), randomize(dy, random), randomize(weight, random);
  expect_same_bytes(Region::layer_norm, [&] {
    Array<T> y(x.shape()), mean(Shape{900}), rstd(Shape{900}), dx(x.shape()), dw(Shape{130}), db(Shape{130});
    layer_norm(x.in(), weight.in(), weight.in(), 1e-5, y.out(), mean.out(), rstd.out());
    layer_norm_backward(x.in(), weight.in(), mean.in(), rstd.in(), dy.in(), dx.out(), dw.out(), db.out());
    return y.bytes() + mean.bytes() + rstd.bytes() + dx.bytes() + dw.bytes() + db.bytes();
  });
}

// ---- RMS norm -------------------------------------------------------------------------------------------------------

template <class T>
void expect_rms_norm(const Array<T>& x, const Array<T>* weight, const Array<T>& dy, double eps, double tolerance) {
  const Shape& shape = x.shape();
  const Index length = shape.back(), rows = x.elements() / length;
  const Shape columns{length};
  Array<T> y(shape), rstd(shape.drop_back()), dx(shape), dweight(columns);
  const ConstView none;
  rms_norm(x.in(), weight ? weight->in() : none, eps, y.out(), rstd.out());
  rms_norm_backward(x.in(), weight ? weight->in() : none, rstd.in(), dy.in(), dx.out(), dweight.out());
  std::vector<double> want_y, want_rstd, want_dx, want_dweight(static_cast<std::size_t>(length));
  for (Index row = 0; row < rows; ++row) {
    const auto at = [&](const Array<T>& a, Index j) { return static_cast<double>(a[row * length + j]); };
    double squares = 0, dot = 0;
    for (Index j = 0; j < length; ++j) squares += at(x, j) * at(x, j) / static_cast<double>(length);
    const double r = 1 / std::sqrt(squares + eps);
    const auto g = [&](Index j) { return at(dy, j) * (weight ? static_cast<double>((*weight)[j]) : 1); };
    for (Index j = 0; j < length; ++j) dot += g(j) * at(x, j) * r / static_cast<double>(length);
    for (Index j = 0; j < length; ++j) {
      want_y.push_back(at(x, j) * r * (weight ? static_cast<double>((*weight)[j]) : 1));
      want_dx.push_back(r * (g(j) - at(x, j) * r * dot));
      want_dweight[static_cast<std::size_t>(j)] += at(dy, j) * at(x, j) * r;
    }
    want_rstd.push_back(r);
  }
  expect_all(y, want_y, tolerance), expect_all(rstd, want_rstd, tolerance);
  expect_all(dx, want_dx, tolerance), expect_all(dweight, want_dweight, tolerance);
}

TYPED_TEST(LayerNormKernels, RmsOfAnyShapeAndStrideWithAndWithoutWeight) {
  using T = TypeParam;
  for_each_target([] {
    Random random(5);
    for (int i = 0; i < 40; ++i) {
      Shape shape = random_shape(random, 3, 9);
      shape.push_back(pick(random, 1, 70));
      Array<T> x = strided<T>(shape, random), dy = strided<T>(shape, random);
      Array<T> weight = strided<T>(Shape{shape.back()}, random);
      randomize(x, random, 2, 1), randomize(dy, random), randomize(weight, random);
      expect_rms_norm(x, i % 2 ? &weight : nullptr, dy, 0.1, 200 * epsilon<T>);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(LayerNormKernels, RmsHasSameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(6);
  Array<T> x(Shape{900, 130}), dy(Shape{900, 130}), weight(Shape{130});
  randomize(x, random), randomize(dy, random), randomize(weight, random);
  expect_same_bytes(Region::layer_norm, [&] {
    Array<T> y(x.shape()), rstd(Shape{900}), dx(x.shape()), dw(Shape{130});
    rms_norm(x.in(), weight.in(), 1e-5, y.out(), rstd.out());
    rms_norm_backward(x.in(), weight.in(), rstd.in(), dy.in(), dx.out(), dw.out());
    return y.bytes() + rstd.bytes() + dx.bytes() + dw.bytes();
  });
}

}  // namespace
}  // namespace capstan::kernels::test
