// binary, compare, logical, where, cast; unary ops have a file of their own.
#include "ops/kernels/arrays.h"

#include <capstan/autograd/error.h>
#include <capstan/ops/kernels/elementwise.h>

namespace capstan::kernels::test {
namespace {

/// y = kernel(a, b) over random broadcast strides equals want(a, b), element by element.
template <class T, class Y, class Kernel, class Want>
void expect_everywhere(Kernel kernel, Want want) {
  Random random(1);
  for (int i = 0; i < 150; ++i) {
    const Shape shape = random_shape(random, 5, i % 3 == 0 ? 70 : 8);
    if (shape.elements() > 200000) continue;
    Array<T> a = strided<T>(broadcastable(shape, random), random), b = strided<T>(broadcastable(shape, random), random);
    randomize(a, random), randomize(b, random);
    Array<Y> y = strided<Y>(shape, random);
    kernel(a.in(), b.in(), y.out());
    for (Index j = 0; j < y.elements(); ++j) {
      const T p = a[broadcast_place(a.shape(), shape, j)], q = b[broadcast_place(b.shape(), shape, j)];
      ASSERT_EQ(y[j], want(p, q)) << to_string(shape) << " from " << to_string(a.shape()) << " and "
                                  << to_string(b.shape());
    }
  }
}

template <class T>
void expect_binary(Binary op, T (*want)(T, T)) {
  expect_everywhere<T, T>([op](ConstView a, ConstView b, View y) { binary(op, a, b, y); }, want);
}

template <class T>
void expect_arithmetic() {
  expect_binary<T>(Binary::add, [](T a, T b) -> T { return a + b; });
  expect_binary<T>(Binary::sub, [](T a, T b) -> T { return a - b; });
  expect_binary<T>(Binary::mul, [](T a, T b) -> T { return a * b; });
  expect_binary<T>(Binary::minimum, [](T a, T b) { return std::min(a, b); });
  expect_binary<T>(Binary::maximum, [](T a, T b) { return std::max(a, b); });
}

TEST(BinaryKernels, EqualScalarArithmeticOverAnyStrides) {
  for_each_target([] {
    expect_arithmetic<float>();
    expect_arithmetic<double>();
    expect_binary<float>(Binary::div, [](float a, float b) { return a / b; });
    expect_binary<double>(Binary::div, [](double a, double b) { return a / b; });
  });
  expect_arithmetic<std::int32_t>();
}

TEST(BinaryKernels, Powers) {
  const Array<double> a(Shape{6}, {2, 2, 9, 0, -2, -8}), b(Shape{6}, {10, -1, 0.5, 0, 3, 0.3});
  Array<double> y(Shape{6});
  binary(Binary::pow, a.in(), b.in(), y.out());
  for (Index i = 0; i < 5; ++i)
    EXPECT_EQ(y[i], (std::vector<double>{1024, 0.5, 3, 1, -8})[static_cast<std::size_t>(i)]);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST(BinaryKernels, MinimumAndMaximumPassNaNOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_each_target([&] {
    Array<double> a(Shape{3}, {nan, 1, nan}), b(Shape{3}, {1, nan, nan}), y(Shape{3});
    for (const Binary op : {Binary::minimum, Binary::maximum}) {
      binary(op, a.in(), b.in(), y.out());
      for (Index i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
    }
  });
}

TEST(BinaryKernels, IntegersWrapAround) {
  Array<std::int32_t> a(Shape{1}), b(Shape{1}), y(Shape{1});
  a[0] = std::numeric_limits<std::int32_t>::max(), b[0] = 1;
  binary(Binary::add, a.in(), b.in(), y.out());
  EXPECT_EQ(y[0], std::numeric_limits<std::int32_t>::min());
  EXPECT_THROW(binary(Binary::div, a.in(), b.in(), y.out()), Error);
}

TEST(BinaryKernels, SameBytesForAnyThreadCount) {
  Random random(2);
  Array<float> a(Shape{400, 301}), b(Shape{301}), c(Shape{400, 1});
  randomize(a, random), randomize(b, random), randomize(c, random);
  expect_same_bytes(Region::elementwise, [&] {
    Array<float> y(Shape{400, 301});
    binary(Binary::add, a.in(), b.in(), y.out());
    binary(Binary::mul, y.in(), c.in(), y.out());
    binary(Binary::pow, y.in(), y.in(), y.out());
    return y.bytes();
  });
}

template <class T>
void expect_comparisons() {
  const auto expect = [](Compare op, bool (*want)(T, T)) {
    expect_everywhere<T, bool>([op](ConstView a, ConstView b, View y) { compare(op, a, b, y); }, want);
  };
  expect(Compare::equal, [](T a, T b) { return a == b; });
  expect(Compare::not_equal, [](T a, T b) { return a != b; });
  expect(Compare::less, [](T a, T b) { return a < b; });
  expect(Compare::less_equal, [](T a, T b) { return a <= b; });
  expect(Compare::greater, [](T a, T b) { return a > b; });
  expect(Compare::greater_equal, [](T a, T b) { return a >= b; });
}

TEST(CompareKernels, AllDTypesAndStrides) {
  expect_comparisons<float>();
  expect_comparisons<double>();
  expect_comparisons<std::int32_t>();
  expect_comparisons<bool>();
}

TEST(CompareKernels, NaNIsUnequalAndNotOrdered) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array<double> a(Shape{2}, {nan, 1}), b(Shape{2}, {nan, nan});
  Array<bool> y(Shape{2});
  for (const Compare op :
       {Compare::equal, Compare::less, Compare::less_equal, Compare::greater, Compare::greater_equal}) {
    compare(op, a.in(), b.in(), y.out());
    EXPECT_FALSE(y[0] || y[1]);
  }
  compare(Compare::not_equal, a.in(), b.in(), y.out());
  EXPECT_TRUE(y[0] && y[1]);
}

TEST(LogicalKernels, AndOrXorNot) {
  const auto expect = [](Logical op, bool (*want)(bool, bool)) {
    expect_everywhere<bool, bool>([op](ConstView a, ConstView b, View y) { logical(op, a, b, y); }, want);
  };
  expect(Logical::logical_and, [](bool a, bool b) { return a && b; });
  expect(Logical::logical_or, [](bool a, bool b) { return a || b; });
  expect(Logical::logical_xor, [](bool a, bool b) { return a != b; });
  expect_everywhere<bool, bool>([](ConstView a, ConstView, View y) { logical_not(a, y); },
                                [](bool a, bool) { return !a; });
}

template <class T>
void expect_selection() {
  Random random(3);
  for (int i = 0; i < 150; ++i) {
    const Shape shape = random_shape(random, 4, i % 3 == 0 ? 70 : 9);
    if (shape.elements() > 200000) continue;
    Array<bool> condition = strided<bool>(broadcastable(shape, random), random);
    Array<T> a = strided<T>(broadcastable(shape, random), random), b = strided<T>(broadcastable(shape, random), random);
    randomize(condition, random), randomize(a, random), randomize(b, random);
    Array<T> y = strided<T>(shape, random);
    where(condition.in(), a.in(), b.in(), y.out());
    for (Index j = 0; j < y.elements(); ++j) {
      const bool taken = condition[broadcast_place(condition.shape(), shape, j)];
      ASSERT_EQ(y[j], taken ? a[broadcast_place(a.shape(), shape, j)] : b[broadcast_place(b.shape(), shape, j)]);
    }
  }
}

TEST(WhereKernel, SelectsForAllDTypesAndStrides) {
  expect_selection<float>();
  expect_selection<double>();
  expect_selection<std::int32_t>();
  expect_selection<bool>();
}

TEST(WhereKernel, TheOtherSideDoesNotMatter) {
  Array<bool> condition(Shape{2});
  condition[0] = true, condition[1] = false;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array<double> a(Shape{2}, {1, nan}), b(Shape{2}, {nan, 2});
  Array<double> y(Shape{2});
  where(condition.in(), a.in(), b.in(), y.out());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 2);
}

template <class To, class From>
void expect_cast(std::vector<double> from, std::vector<double> want) {
  const Index count = static_cast<Index>(from.size());
  Array<From> x(Shape{count}, from);
  Array<To> y(Shape{count});
  cast(x.in(), y.out());
  for (Index i = 0; i < count; ++i)
    EXPECT_EQ(static_cast<double>(y[i]), want[static_cast<std::size_t>(i)])
        << name_of(dtype_of<From>) << " to " << name_of(dtype_of<To>);
}

TEST(CastKernel, AllPairsOfDTypes) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  expect_cast<float, double>({1.5, -2, 1e300}, {1.5, -2, inf});
  expect_cast<double, float>({1.5, -2}, {1.5, -2});
  expect_cast<std::int32_t, double>({1.9, -1.9, 1e20, -1e20, nan, inf},
                                    {1, -1, 2147483647, -2147483648.0, 0, 2147483647});
  expect_cast<std::int32_t, float>({1.9, -1.9, 3e9, -3e9, nan}, {1, -1, 2147483647, -2147483648.0, 0});
  expect_cast<bool, double>({0, -0.0, 0.5, nan}, {0, 0, 1, 1});
  expect_cast<bool, std::int32_t>({0, 7, -1}, {0, 1, 1});
  expect_cast<float, std::int32_t>({3, -4}, {3, -4});
  expect_cast<double, bool>({0, 1}, {0, 1});
  expect_cast<std::int32_t, bool>({0, 1}, {0, 1});
  expect_cast<bool, bool>({0, 1}, {0, 1});
}

}  // namespace
}  // namespace capstan::kernels::test
