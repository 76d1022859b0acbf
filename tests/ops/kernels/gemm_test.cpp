#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/gemm.h>

#include <algorithm>

namespace capstan::kernels::test {
namespace {

/// Any strides for a rows × columns matrix: by rows, by columns, with gaps, or both strides above 1.
template <class T>
Array<T> matrix(Index rows, Index columns, Random& random) {
  Index strides[2];
  const Index gap = pick(random, 0, 2);
  switch (pick(random, 0, 3)) {
    case 0:
    case 1: strides[0] = columns + gap, strides[1] = 1; break;
    case 2: strides[0] = 1, strides[1] = rows + gap; break;
    default: strides[0] = 2, strides[1] = 2 * rows + 3; break;
  }
  Array<T> a(Layout(Shape{rows, columns}, strides, 1), 2 + strides[0] * rows + strides[1] * columns);
  randomize(a, random);
  return a;
}

template <class T>
Product<T> product_of(Array<T>& a, Array<T>& b, Array<T>& c) {
  Product<T> p;
  p.m = a.shape()[0], p.n = b.shape()[1], p.k = a.shape()[1];
  p.a = a.in().template data<T>(), p.a_row = a.layout().stride(0), p.a_column = a.layout().stride(1);
  p.b = b.in().template data<T>(), p.b_row = b.layout().stride(0), p.b_column = b.layout().stride(1);
  p.c = c.data(), p.c_row = c.shape()[1];
  return p;
}

template <class T>
void expect_product(Index m, Index n, Index k, Random& random) {
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
  Array<T> a = matrix<T>(m, k, random), b = matrix<T>(k, n, random);
  const Index gap = pick(random, 0, 3);
  Array<T> c(Shape{m, n + gap}), bias(Shape{n});
  randomize(bias, random);
  const bool accumulate = pick(random, 0, 1) == 1, with_bias = pick(random, 0, 2) == 0;
  // Without accumulation C must not be read.
  for (Index i = 0; i < c.elements(); ++i)
    c[i] = accumulate ? static_cast<T>(normal(random)) : std::numeric_limits<T>::quiet_NaN();
  const std::string gap_bytes = c.bytes();
  std::vector<double> want(static_cast<std::size_t>(m * n)), size(want.size());
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = accumulate ? static_cast<double>(c[i * (n + gap) + j]) : 0;
      if (with_bias) sum += static_cast<double>(bias[j]);
      double magnitude = std::abs(sum) + 1;
      for (Index q = 0; q < k; ++q) {
        const double term = static_cast<double>(a[i * k + q]) * static_cast<double>(b[q * n + j]);
        sum += term;
        magnitude += std::abs(term);
      }
      want[static_cast<std::size_t>(i * n + j)] = sum;
      size[static_cast<std::size_t>(i * n + j)] = magnitude;
    }
  Product<T> p = product_of(a, b, c);
  p.n = n, p.accumulate = accumulate;
  if (with_bias) p.bias = bias.data();
  gemm(p);
  // The bound on a sum of k + 2 rounded terms in any order (Higham 2002, §3.1), for the product and for the oracle.
  const double steps = static_cast<double>(k + 2);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j)
      expect_near(static_cast<double>(c[i * (n + gap) + j]), want[static_cast<std::size_t>(i * n + j)], 0,
                  steps * epsilon<T> * size[static_cast<std::size_t>(i * n + j)]);
    const std::size_t at = static_cast<std::size_t>(i * (n + gap) + n) * sizeof(T);
    EXPECT_EQ(c.bytes().substr(at, static_cast<std::size_t>(gap) * sizeof(T)),
              gap_bytes.substr(at, static_cast<std::size_t>(gap) * sizeof(T)))
        << "wrote between rows";
    if (testing::Test::HasFailure()) return;
  }
}

template <class T>
class Gemm : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Floats);

TYPED_TEST(Gemm, EqualsTheNaiveProductForAnySizeAndStride) {
  for_each_target([] {
    Random random(1);
    for (int i = 0; i < 150; ++i)
      expect_product<TypeParam>(pick(random, 0, 40), pick(random, 0, 40), pick(random, 0, 40), random);
    for (int i = 0; i < 10; ++i)
      expect_product<TypeParam>(pick(random, 1, 150), pick(random, 1, 150), pick(random, 1, 300), random);
    for (const Index size : {1, 3, 63, 64, 65, 129}) {
      expect_product<TypeParam>(1, size, size, random);
      expect_product<TypeParam>(size, 1, size, random);
      expect_product<TypeParam>(size, size, 1, random);
    }
  });
}

TYPED_TEST(Gemm, LongSumsOfOperandsOfAnyStride) {
  // Beyond the depth of a packed block, each operand by rows, by columns and with gaps.
  for_each_target([] {
    Random random(4);
    for (int i = 0; i < 12; ++i) expect_product<TypeParam>(pick(random, 5, 40), pick(random, 5, 40), 600, random);
  });
}

TYPED_TEST(Gemm, CutIntoBlocksOfRowsColumnsAndDepth) {
  // Blocks of 48 rows or columns at least, more than one slice of columns, and partial sums along a long k.
  for_each_target([] {
    Random random(6);
    for (const auto& [m, n, k] : {std::array<Index, 3>{230, 70, 100}, {20, 900, 40}, {200, 400, 20}, {40, 40, 1100}})
      expect_product<TypeParam>(m, n, k, random);
  });
}

TYPED_TEST(Gemm, FewRowsOrOneColumnOfAnyStride) {
  for_each_target([] {
    Random random(7);
    for (int i = 0; i < 40; ++i) {
      const Index n = pick(random, 1, 300), k = pick(random, 1, 300);
      expect_product<TypeParam>(pick(random, 1, 5), n, k, random);
      expect_product<TypeParam>(n, 1, k, random);
    }
  });
}

TYPED_TEST(Gemm, EmptySizes) {
  Random random(2);
  Array<TypeParam> a(Shape{2, 0}), b(Shape{0, 3}), c(Shape{2, 3});
  c.fill_all(7);
  Product<TypeParam> p = product_of(a, b, c);
  p.accumulate = true;
  gemm(p);
  EXPECT_EQ(c[5], 7);
  p.accumulate = false;
  gemm(p);
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(c[i], 0);
  for (const auto& [m, n] : {std::pair<Index, Index>{0, 3}, {3, 0}, {0, 0}}) {
    p.m = m, p.n = n, p.k = 4;
    gemm(p);
  }
  gemm<TypeParam>(p, 0, [](Index) { return Operands<TypeParam>{}; });
}

TYPED_TEST(Gemm, BroadcastOperands) {
  // Strides of 0: every row of A, every column of B the same.
  using T = TypeParam;
  std::vector<T> row = {1, 2, 3}, column = {1, 10, 100};
  std::vector<T> c(20);
  Product<T> p;
  p.m = 4, p.n = 5, p.k = 3;
  p.a = row.data(), p.a_row = 0, p.a_column = 1;
  p.b = column.data(), p.b_row = 1, p.b_column = 0;
  p.c = c.data(), p.c_row = 5;
  gemm(p);
  for (const T value : c) EXPECT_EQ(value, 321);
}

// Rows of B that are whole vectors are read in place; with a gap, and where all are one row, they are not.
TYPED_TEST(Gemm, BHasTheSameBytesInPlaceAndPacked) {
  using T = TypeParam;
  constexpr Index m = 200, n = 64, k = 900;
  Random random(6);
  Array<T> a(Shape{m, k});
  randomize(a, random);
  for (const bool one_row : {false, true}) {
    std::vector<T> dense(k * n), gaps(k * (n + 1), std::numeric_limits<T>::quiet_NaN());
    for (Index q = 0; q < k; ++q)
      for (Index j = 0; j < n; ++j)
        dense[q * n + j] = gaps[q * (n + 1) + j] =
            static_cast<T>((one_row ? j * 37 : (q * n + j) * 7919) % 101 - 50) / 50;
    const auto product = [&](const std::vector<T>& b, Index b_row) {
      Array<T> c(Shape{m, n});
      Product<T> p;
      p.m = m, p.n = n, p.k = k;
      p.a = a.in().template data<T>(), p.a_row = k;
      p.b = b.data(), p.b_row = b_row;
      p.c = c.out().template data<T>(), p.c_row = n;
      gemm(p);
      return c.bytes();
    };
    const std::string packed = product(gaps, n + 1);
    EXPECT_EQ(product(dense, n), packed);
    if (one_row) { EXPECT_EQ(product(dense, 0), packed); }
  }
}

TYPED_TEST(Gemm, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  for (const auto& [m, n, k] : {std::array<Index, 3>{512, 200, 64}, {97, 1030, 131}, {129, 257, 300}, {65, 70, 1100}}) {
    Random random(3);
    Array<T> a = matrix<T>(m, k, random), b = matrix<T>(k, n, random);
    expect_same_bytes(Region::gemm, [&, m = m, n = n] {
      Array<T> c(Shape{m, n});
      gemm(product_of(a, b, c));
      return c.bytes();
    });
  }
}

TYPED_TEST(Gemm, ARowOfCDependsOnItsRowOfAOnly) {
  using T = TypeParam;
  for (const auto& [m, n, k] : {std::array<Index, 3>{7, 9, 5}, {33, 20, 40}, {130, 64, 64}, {600, 70, 80}}) {
    Random random(4);
    Array<T> a(Shape{m, k}), b(Shape{k, n}), before(Shape{m, n}), after(Shape{m, n});
    randomize(a, random), randomize(b, random);
    gemm(product_of(a, b, before));
    const Index changed = m - 1 - m / 3;
    for (Index i = changed * k; i < m * k; ++i) a[i] = std::numeric_limits<T>::quiet_NaN();
    gemm(product_of(a, b, after));
    const std::size_t kept = static_cast<std::size_t>(changed * n) * sizeof(T);
    EXPECT_EQ(before.bytes().substr(0, kept), after.bytes().substr(0, kept)) << m;
  }
}

TYPED_TEST(Gemm, BatchesRunItemByItemWithTheSameBytes) {
  using T = TypeParam;
  for (const auto& [batch, m, n, k] : {std::array<Index, 4>{64, 16, 12, 20}, {8, 100, 100, 64}, {3, 300, 100, 64}}) {
    Random random(5);
    Array<T> a(Shape{batch, m, k}), b(Shape{k, n});
    randomize(a, random), randomize(b, random);
    const auto run = [&, batch = batch, m = m, n = n, k = k] {
      Array<T> c(Shape{batch, m, n});
      Product<T> p;
      p.m = m, p.n = n, p.k = k, p.a_row = k, p.b_row = n, p.c_row = n;
      gemm<T>(p, batch, [&](Index item) {
        return Operands<T>{a.data() + item * m * k, b.data(), c.data() + item * m * n};
      });
      return c;
    };
    const Array<T> c = run();
    for (int i = 0; i < 200; ++i) {
      const Index at = pick(random, 0, batch * m * n - 1);
      double want = 0;
      for (Index q = 0; q < k; ++q)
        want += static_cast<double>(a[at / n * k + q]) * static_cast<double>(b[q * n + at % n]);
      expect_near(static_cast<double>(c[at]), want, 1e-6, epsilon<T> * 100);
    }
    if (batch * m * n * k > 1000000) expect_same_bytes(Region::gemm, [&] { return run().bytes(); });
  }
}

TEST(GemmErrors, AnExceptionOfTheCallerCrossesTheRegion) {
  std::vector<float> c(4);
  Product<float> p;
  p.m = p.n = 2;
  p.c_row = 2;
  const auto broken = [&](Index item) -> Operands<float> {
    if (item == 1) throw std::runtime_error("item 1");
    return {nullptr, nullptr, c.data()};
  };
  EXPECT_THROW((gemm<float>(p, 2, broken)), std::runtime_error);
}

}  // namespace
}  // namespace capstan::kernels::test
