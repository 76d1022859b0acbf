#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/copy.h>

namespace capstan::kernels::test {
namespace {

template <class T>
void expect_copies() {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    const Shape shape = random_shape(random, 5, i % 4 == 0 ? 40 : 9);
    if (shape.elements() > 200000) continue;
    Array<T> x = strided<T>(i % 2 == 0 ? shape : broadcastable(shape, random), random), y = strided<T>(shape, random);
    randomize(x, random);
    copy(x.in(), y.out());
    for (Index j = 0; j < y.elements(); ++j)
      ASSERT_EQ(y[j], x[broadcast_place(x.shape(), shape, j)]) << to_string(shape);
  }
}

TEST(CopyKernel, AllDTypesAndStrides) {
  expect_copies<float>();
  expect_copies<double>();
  expect_copies<std::int32_t>();
  expect_copies<bool>();
}

TEST(CopyKernel, TransposesOfAnySize) {
  for (const auto& [rows, columns] : {std::pair<Index, Index>{8, 8}, {31, 33}, {64, 7}, {200, 129}, {1000, 8}, {700, 200}}) {
    Array<float> x(Shape{3, columns, rows}), y(Shape{3, rows, columns});
    for (Index i = 0; i < x.elements(); ++i) x[i] = static_cast<float>(i);
    const Layout turned = x.layout().transposed(1, 2);
    copy({x.data(), &turned, DType::f32}, y.out());
    for (Index i = 0; i < y.elements(); ++i) {
      const Index plane = i / (rows * columns), row = i / columns % rows, column = i % columns;
      ASSERT_EQ(y[i], x[(plane * columns + column) * rows + row]);
    }
  }
}

TEST(CopyKernel, HeadsAreSplitAndJoinedByRows) {
  // 3 · 70 · 50 rows of 9 elements, more than one task; columns beyond the ninth do not belong to it.
  Array<float> x(Shape{3, 50, 70, 11}), y(Shape{3, 70, 50, 9});
  for (Index i = 0; i < x.elements(); ++i) x[i] = static_cast<float>(i);
  const Layout heads = x.layout().transposed(1, 2).sliced(3, 1, 9);
  copy({x.data(), &heads, DType::f32}, y.out());
  for (Index i = 0; i < y.elements(); ++i) {
    const Index column = i % 9, head = i / 9 % 50, time = i / 450 % 70, item = i / 31500;
    ASSERT_EQ(y[i], x[((item * 50 + head) * 70 + time) * 11 + column + 1]);
  }
}

TEST(CopyKernel, IntoASliceLeavesTheRestAlone) {
  Array<double> whole(Shape{5, 6});
  whole.fill_all(-1);
  const Layout part = whole.layout().sliced(0, 1, 3).sliced(1, 1, 2, 3);
  const Array<double> x(Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  copy(x.in(), {whole.data(), &part, DType::f64});
  for (Index i = 0; i < 30; ++i) {
    const Index row = i / 6, column = i % 6;
    const bool inside = row >= 1 && row < 4 && (column == 1 || column == 4);
    EXPECT_EQ(whole[i], inside ? x[(row - 1) * 2 + column / 3] : -1) << i;
  }
}

TEST(CopyKernel, RunsInParallelWithTheSameBytes) {
  Random random(2);
  Array<float> x(Shape{500, 300});
  randomize(x, random);
  const Layout turned = x.layout().transposed(0, 1);
  expect_same_bytes(Region::copy, [&] {
    Array<float> y(Shape{300, 500});
    copy({x.data(), &turned, DType::f32}, y.out());
    return y.bytes();
  });
}

TEST(FillKernel, AllDTypesAndStrides) {
  Random random(3);
  const auto expect = [&](auto zero, double value) {
    using T = decltype(zero);
    for (int i = 0; i < 30; ++i) {
      Array<T> y = strided<T>(random_shape(random, 4, 9), random);
      fill(y.out(), value);
      for (Index j = 0; j < y.elements(); ++j) ASSERT_EQ(y[j], static_cast<T>(value));
    }
  };
  expect(float{}, 0.5);
  expect(double{}, -1e300);
  expect(std::int32_t{}, -7);
  expect(bool{}, 1);
}

}  // namespace
}  // namespace capstan::kernels::test
