#include "ops/kernels/arrays.h"

#include <capstan/autograd/error.h>
#include <capstan/ops/kernels/elementwise.h>

namespace capstan::kernels::test {
namespace {

using Long = long double;
using Function = Long (*)(Long);

constexpr Long infinity = std::numeric_limits<Long>::infinity();

Long sigmoid(Long x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Long softplus(Long x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); }
Long silu(Long x) { return x == -infinity ? -0.0L : x * sigmoid(x); }
Long silu_slope(Long x) {
  if (std::isinf(x)) return x < 0 ? 0 : 1;
  return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}
Long gelu_argument(Long x) {
  return 2 * std::sqrt(2 / Long{3.14159265358979323846264338327950288L}) * (x + 0.044715L * x * x * x);
}
Long gelu_tanh(Long x) { return x == -infinity ? -0.0L : x * sigmoid(gelu_argument(x)); }
Long gelu_erf(Long x) { return x == -infinity ? -0.0L : 0.5L * x * std::erfc(-x * std::sqrt(0.5L)); }
Long gelu_tanh_slope(Long x) {
  if (std::isinf(x)) return x < 0 ? 0 : 1;
  const Long s = sigmoid(gelu_argument(x));
  const Long dv = 2 * std::sqrt(2 / Long{3.14159265358979323846264338327950288L}) * (1 + 3 * 0.044715L * x * x);
  return s + x * s * sigmoid(-gelu_argument(x)) * dv;
}
Long gelu_erf_slope(Long x) {
  if (std::isinf(x)) return x < 0 ? 0 : 1;
  return 0.5L * std::erfc(-x * std::sqrt(0.5L)) +
         x * std::exp(-0.5L * x * x) / std::sqrt(2 * 3.14159265358979323846264338327950288L);
}

struct Case {
  const char* name;
  Unary op;
  Function exact;
  double low, high;
  double ulps;
};
const Case cases[] = {
    {"neg", Unary::neg, [](Long x) { return -x; }, -5, 5, 0},
    {"abs", Unary::abs, [](Long x) { return std::abs(x); }, -5, 5, 0},
    {"sign", Unary::sign, [](Long x) { return x > 0   ? 1
                                              : x < 0 ? -1
                                                      : x; }, -5, 5, 0},
    {"square", Unary::square, [](Long x) { return x * x; }, -5, 5, 0.51},
    {"reciprocal", Unary::reciprocal, [](Long x) { return 1 / x; }, -5, 5, 0.51},
    {"sqrt", Unary::sqrt, [](Long x) { return std::sqrt(x); }, 0, 9, 0.51},
    {"rsqrt", Unary::rsqrt, [](Long x) { return 1 / std::sqrt(x); }, 0, 9, 1.5},
    {"relu", Unary::relu, [](Long x) { return x < 0 ? 0 : x; }, -5, 5, 0},
    {"exp", Unary::exp, [](Long x) { return std::exp(x); }, -110, 90, 1.5},
    {"log", Unary::log, [](Long x) { return std::log(x); }, 0, 3, 1.5},
    {"tanh", Unary::tanh, [](Long x) { return std::tanh(x); }, -6, 6, 3},
    {"sigmoid", Unary::sigmoid, sigmoid, -40, 40, 3},
    {"sigmoid_slope", Unary::sigmoid_slope, [](Long x) { return sigmoid(x) * sigmoid(-x); }, -40, 40, 4},
    {"softplus", Unary::softplus, softplus, -40, 40, 3},
    {"sin", Unary::sin, [](Long x) { return std::sin(x); }, -1000, 1000, 3},
    {"cos", Unary::cos, [](Long x) { return std::cos(x); }, -1000, 1000, 3},
    {"erf", Unary::erf, [](Long x) { return std::erf(x); }, -4, 4, 4},
    {"erfc", Unary::erfc, [](Long x) { return std::erfc(x); }, -4, 8, 8},
};

/// Distance in units of the last place of the exact value.
template <class T>
double ulps(T got, Long want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : infinity;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : infinity;
  const T size = std::abs(rounded);
  const T unit = size == std::numeric_limits<T>::max()
                     ? size - std::nextafter(size, T{0})
                     : std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
  return static_cast<double>(std::abs(static_cast<Long>(got) - want) / static_cast<Long>(unit));
}

/// Values in the case's range, of all magnitudes, all bit patterns, and the special ones.
template <class T>
Array<T> inputs(const Case& c, Random& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           -T{0},
                           1,
                           -1,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::min(),
                           -Limits::min(),
                           Limits::max(),
                           Limits::lowest(),
                           Limits::denorm_min(),
                           Limits::quiet_NaN(),
                           -Limits::denorm_min(),
                           T(1e5),
                           T(-1e5),
                           T(39000.5),
                           T(1e15),
                           T(88.8),
                           T(-103.9)};
  std::uniform_real_distribution<double> range(c.low, c.high);
  for (int i = 0; i < 6000; ++i) {
    values.push_back(static_cast<T>(range(random)));
    values.push_back(static_cast<T>(std::ldexp(range(random), -static_cast<int>(random() % 50))));
    const Bits bits = static_cast<Bits>(random());
    T any;
    std::memcpy(&any, &bits, sizeof any);
    values.push_back(any);
  }
  for (int i = 1; i < 500; ++i) values.push_back(static_cast<T>(i * 1.57079632679489661923));
  Array<T> x(Shape{static_cast<Index>(values.size())});
  for (Index i = 0; i < x.elements(); ++i) x[i] = values[static_cast<std::size_t>(i)];
  return x;
}

template <class T>
class UnaryKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(UnaryKernels, Floats);

TYPED_TEST(UnaryKernels, AreAccurateOverAllBinades) {
  using T = TypeParam;
  for_each_target([] {
    for (const Case& c : cases) {
      Random random(1);
      const Array<T> x = inputs<T>(c, random);
      Array<T> y(x.shape());
      unary(c.op, x.in(), y.out());
      double worst = 0;
      Index at = 0;
      for (Index i = 0; i < x.elements(); ++i) {
        // x87's sin and cos of long double are exact to a fraction of a double's last place.
        const double error = ulps<T>(y[i], c.exact(static_cast<Long>(x[i])));
        if (error > worst) worst = error, at = i;
      }
      EXPECT_LE(worst, c.ulps) << c.name << "(" << x[at] << ") = " << y[at];
    }
  });
}

TYPED_TEST(UnaryKernels, SiluIsAccurateWhereSigmoidIsNormal) {
  using T = TypeParam;
  for_each_target([] {
    Random random(5);
    const double low = std::log(static_cast<double>(std::numeric_limits<T>::min())) + 0.1;
    std::uniform_real_distribution<double> range(low, 40), tail(low - 40, low);
    Array<T> x(Shape{4000}), y(Shape{4000});
    for (Index i = 0; i < 4000; ++i)
      x[i] = static_cast<T>(i % 4 == 0   ? tail(random)
                            : i % 4 == 1 ? std::ldexp(range(random), -static_cast<int>(random() % 50))
                                         : range(random));
    unary(Unary::silu, x.in(), y.out());
    for (Index i = 0; i < 4000; ++i) {
      const Long want = silu(static_cast<Long>(x[i]));
      if (x[i] >= static_cast<T>(low))
        ASSERT_LE(ulps<T>(y[i], want), 4) << x[i];
      else
        ASSERT_LE(std::abs(static_cast<Long>(y[i]) - want), -x[i] * std::numeric_limits<T>::denorm_min()) << x[i];
    }
  });
}

TYPED_TEST(UnaryKernels, SpecialValues) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const auto f = [](Unary op, T value) {
    Array<T> x(Shape{1}), y(Shape{1});
    x[0] = value;
    unary(op, x.in(), y.out());
    return y[0];
  };
  for_each_target([&] {
    EXPECT_EQ(f(Unary::exp, -inf), 0);
    EXPECT_EQ(f(Unary::exp, inf), inf);
    EXPECT_EQ(f(Unary::exp, 0), 1);
    EXPECT_EQ(f(Unary::log, 0), -inf);
    EXPECT_EQ(f(Unary::log, 1), 0);
    EXPECT_EQ(f(Unary::log, inf), inf);
    EXPECT_TRUE(std::isnan(f(Unary::log, -1)));
    EXPECT_EQ(f(Unary::tanh, inf), 1);
    EXPECT_EQ(f(Unary::tanh, -inf), -1);
    EXPECT_TRUE(std::signbit(f(Unary::tanh, -T{0})));
    EXPECT_TRUE(std::isnan(f(Unary::sin, inf)));
    EXPECT_EQ(f(Unary::sigmoid, -inf), 0);
    EXPECT_EQ(f(Unary::sigmoid_slope, inf), 0);
    EXPECT_EQ(f(Unary::softplus, -inf), 0);
    EXPECT_EQ(f(Unary::softplus, inf), inf);
    EXPECT_EQ(f(Unary::silu, -inf), 0);
    EXPECT_EQ(f(Unary::silu, inf), inf);
    EXPECT_EQ(f(Unary::silu_slope, -inf), 0);
    EXPECT_EQ(f(Unary::silu_slope, inf), 1);
    EXPECT_EQ(f(Unary::gelu_tanh, -inf), 0);
    EXPECT_EQ(f(Unary::gelu_tanh, inf), inf);
    EXPECT_EQ(f(Unary::gelu_erf, -inf), 0);
    EXPECT_EQ(f(Unary::gelu_erf, inf), inf);
    for (int op = 0; op <= static_cast<int>(Unary::gelu_erf_slope); ++op)
      EXPECT_TRUE(std::isnan(f(static_cast<Unary>(op), nan))) << op;
  });
}

TYPED_TEST(UnaryKernels, GelusAndSiluKeepTheirNegativeTails) {
  using T = TypeParam;
  const double relative = std::is_same_v<T, float> ? 1e-5 : 1e-13;
  for_each_target([&] {
    for (const auto& [op, exact] : {std::pair<Unary, Function>{Unary::gelu_tanh, gelu_tanh},
                                    {Unary::gelu_erf, gelu_erf},
                                    {Unary::gelu_tanh_slope, gelu_tanh_slope},
                                    {Unary::gelu_erf_slope, gelu_erf_slope},
                                    {Unary::silu_slope, silu_slope}}) {
      for (double at = -9; at <= 9; at += 0.37) {
        Array<T> x(Shape{1}), y(Shape{1});
        x[0] = static_cast<T>(at);
        unary(op, x.in(), y.out());
        expect_near(static_cast<double>(y[0]), static_cast<double>(exact(static_cast<Long>(x[0]))), relative, 0,
                    "at " + std::to_string(at));
      }
    }
    Array<T> x(Shape{1}), y(Shape{1});
    x[0] = -6;
    unary(Unary::gelu_tanh, x.in(), y.out());
    expect_near(static_cast<double>(y[0]), -8.4396e-11, 1e-4, 0);
    unary(Unary::gelu_erf, x.in(), y.out());
    expect_near(static_cast<double>(y[0]), -5.9195e-9, 1e-4, 0);
    unary(Unary::gelu_tanh_slope, x.in(), y.out());
    expect_near(static_cast<double>(y[0]), -7.710e-10, 1e-4, 0);
    unary(Unary::gelu_erf_slope, x.in(), y.out());
    expect_near(static_cast<double>(y[0]), -3.5469e-8, 1e-4, 0);
  });
}

TYPED_TEST(UnaryKernels, AnElementDoesNotDependOnItsPlace) {
  using T = TypeParam;
  for_each_target([] {
    Random random(2);
    for (int op = 0; op <= static_cast<int>(Unary::gelu_erf_slope); ++op) {
      Array<T> x(Shape{100}), y(Shape{100});
      randomize(x, random, 3);
      unary(static_cast<Unary>(op), x.in(), y.out());
      for (Index i = 0; i < 100; ++i) {
        Array<T> one(Shape{1}), alone(Shape{1});
        one[0] = x[i];
        unary(static_cast<Unary>(op), one.in(), alone.out());
        EXPECT_EQ(std::memcmp(&alone[0], &y[i], sizeof(T)), 0) << op << " at " << i;
      }
    }
  });
}

TYPED_TEST(UnaryKernels, AnyStridesAndBroadcasts) {
  using T = TypeParam;
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const Shape shape = random_shape(random, 5, 9);
    Array<T> x = strided<T>(broadcastable(shape, random), random), y = strided<T>(shape, random);
    randomize(x, random);
    unary(Unary::neg, x.in(), y.out());
    for (Index j = 0; j < y.elements(); ++j)
      ASSERT_EQ(y[j], -x[broadcast_place(x.shape(), shape, j)]) << to_string(shape);
  }
}

TYPED_TEST(UnaryKernels, InPlace) {
  Array<TypeParam> x(Shape{37});
  for (Index i = 0; i < 37; ++i) x[i] = static_cast<TypeParam>(i);
  unary(Unary::square, x.in(), x.out());
  for (Index i = 0; i < 37; ++i) EXPECT_EQ(x[i], static_cast<TypeParam>(i * i));
}

TYPED_TEST(UnaryKernels, GeluAndItsGradientTogetherAreEachAloneToTheBit) {
  using T = TypeParam;
  for_each_target([] {
    Random random(7);
    for (const Index count : {1, 37, 20'000}) {
      Array<T> x(Shape{count}), h(Shape{count}), dx(Shape{count}), want_h(Shape{count}), want_dx(Shape{count});
      randomize(x, random, 4), randomize(dx, random);
      unary(Unary::gelu_tanh, x.in(), want_h.out());
      unary_times(Unary::gelu_tanh_slope, x.in(), dx.in(), want_dx.out());
      gelu_tanh_and_gradient(x.in(), h.out(), dx.out());
      EXPECT_EQ(h.bytes(), want_h.bytes());
      EXPECT_EQ(dx.bytes(), want_dx.bytes());
    }
  });
}

TYPED_TEST(UnaryKernels, TimesAnotherOperandIsTheProductToTheBit) {
  using T = TypeParam;
  Random random(6);
  for (int i = 0; i < 60; ++i) {
    const Shape shape = i == 0 ? Shape{2, 1500} : random_shape(random, 3, 9);
    Array<T> x = strided<T>(broadcastable(shape, random), random), a = strided<T>(broadcastable(shape, random), random);
    Array<T> y = strided<T>(shape, random), f(x.shape());
    randomize(x, random), randomize(a, random);
    unary_times(Unary::gelu_tanh_slope, x.in(), a.in(), y.out());
    unary(Unary::gelu_tanh_slope, x.in(), f.out());
    for (Index j = 0; j < y.elements(); ++j)
      ASSERT_EQ(y[j], a[broadcast_place(a.shape(), shape, j)] * f[broadcast_place(x.shape(), shape, j)]);
  }
}

TYPED_TEST(UnaryKernels, TimesAnotherOperandInPlaceOfIt) {
  Array<TypeParam> x(Shape{2000}), a(Shape{2000});
  for (Index i = 0; i < 2000; ++i) x[i] = static_cast<TypeParam>(i % 7), a[i] = static_cast<TypeParam>(i % 5);
  unary_times(Unary::square, x.in(), a.in(), a.out());
  for (Index i = 0; i < 2000; ++i) EXPECT_EQ(a[i], static_cast<TypeParam>(i % 5 * (i % 7) * (i % 7)));
}

TYPED_TEST(UnaryKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(4);
  Array<T> x(Shape{300, 301});
  randomize(x, random, 4);
  const Layout turned = x.layout().transposed(0, 1);
  for (const Unary op : {Unary::neg, Unary::exp, Unary::gelu_tanh, Unary::sin, Unary::erf})
    expect_same_bytes(Region::elementwise, [&] {
      Array<T> y(Shape{301, 300});
      unary(op, {x.data(), &turned, dtype_of<T>}, y.out());
      return y.bytes();
    });
}

TYPED_TEST(UnaryKernels, ScalarForms) {
  using T = TypeParam;
  for_each_target([] {
    const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const Array<T> x(Shape{7}, {-3, -0.5, 0, 0.5, 3, 1, 2});
    Array<T> y(Shape{7});
    affine(x.in(), 2, 1, y.out());
    for (Index i = 0; i < 7; ++i) EXPECT_EQ(y[i], x[i] * 2 + 1);
    clamp(x.in(), -1, 2, y.out());
    for (Index i = 0; i < 7; ++i) EXPECT_EQ(y[i], std::min(T{2}, std::max(T{-1}, x[i])));
    Array<T> z(Shape{4});
    z[0] = nan, z[1] = inf, z[2] = -inf, z[3] = -T{0};
    Array<T> w(Shape{4});
    clamp(z.in(), -1, 2, w.out());
    EXPECT_TRUE(std::isnan(w[0]));
    EXPECT_EQ(w[1], 2);
    EXPECT_EQ(w[2], -1);
    clamp(z.in(), -static_cast<double>(inf), 2, w.out());
    EXPECT_EQ(w[2], -inf);
    affine(z.in(), 3, 0, w.out());
    EXPECT_TRUE(std::signbit(w[3])) << "scaling must keep -0";
  });
}

TEST(UnaryIntegers, NegAbsSignSquareRelu) {
  constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  Array<std::int32_t> x(Shape{4}), y(Shape{4});
  x[0] = -3, x[1] = 0, x[2] = 5, x[3] = lowest;
  const auto expect = [&](Unary op, std::vector<std::int32_t> want) {
    unary(op, x.in(), y.out());
    for (Index i = 0; i < 4; ++i) EXPECT_EQ(y[i], want[static_cast<std::size_t>(i)]);
  };
  expect(Unary::neg, {3, 0, -5, lowest});
  expect(Unary::abs, {3, 0, 5, lowest});
  expect(Unary::sign, {-1, 0, 1, -1});
  expect(Unary::square, {9, 0, 25, 0});
  expect(Unary::relu, {0, 0, 5, 0});
  EXPECT_THROW(unary(Unary::exp, x.in(), y.out()), Error);
}

}  // namespace
}  // namespace capstan::kernels::test
