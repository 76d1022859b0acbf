// Dropout against Keep, element by element: any strides and broadcasts of x, threads.
#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/dropout.h>

namespace capstan::kernels::test {
namespace {

template <class T>
class DropoutKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutKernels, Floats);

TYPED_TEST(DropoutKernels, AnyShapeAndStrideKeepsByRowMajorIndex) {
  using T = TypeParam;
  Random random(1);
  for (int run = 0; run < 80; ++run) {
    Shape shape = random_shape(random, 3, 12);
    if (run % 4 == 0) shape.push_back(pick(random, 500, 700));  // runs longer than the loop's buffers
    Array<T> x = strided<T>(shape, random), y(shape);
    randomize(x, random);
    const Keep keep(Key{.seed = static_cast<std::uint64_t>(run)}, 0.4);
    dropout(x.in(), keep, 2.5, y.out());
    for (Index i = 0; i < shape.elements(); ++i)
      ASSERT_EQ(y[i], keep(i) ? x[i] * static_cast<T>(2.5) : T{}) << to_string(shape) << " " << i;
  }
}

TYPED_TEST(DropoutKernels, StretchedInputs) {
  using T = TypeParam;
  const Array<T> one(Shape{1, 1}, {3}), column(Shape{40, 1}, std::vector<double>(40, 3.0));
  const Layout wide = one.layout().broadcast_to(Shape{40, 70}), wider = column.layout().broadcast_to(Shape{40, 70});
  const Keep keep(Key{.seed = 7}, 0.4);
  for (const ConstView& x :
       {ConstView{one.in().bytes, &wide, one.in().dtype}, ConstView{column.in().bytes, &wider, column.in().dtype}}) {
    Array<T> y(Shape{40, 70});
    dropout(x, keep, 2, y.out());
    for (Index i = 0; i < y.elements(); ++i) ASSERT_EQ(y[i], keep(i) ? T{6} : T{});
  }
}

TYPED_TEST(DropoutKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(2);
  Array<T> x(Shape{50000});
  randomize(x, random);
  expect_same_bytes(Region::random, [&] {
    Array<T> y(x.shape());
    dropout(x.in(), Keep(Key{.seed = 8}, 0.1), 1 / 0.9, y.out());
    return y.bytes();
  });
}

}  // namespace
}  // namespace capstan::kernels::test
