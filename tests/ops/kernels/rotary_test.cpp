// Rotary embedding against its formula: any strides and positions, both pairings, both directions, threads.
#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/rotary.h>

namespace capstan::kernels::test {
namespace {

template <class T>
class RotaryKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(RotaryKernels, Floats);

TYPED_TEST(RotaryKernels, AnyShapeStrideAndPosition) {
  using T = TypeParam;
  Random random(1);
  for (int run = 0; run < 200; ++run) {
    Shape shape = random_shape(random, 3, 5);
    const Index rows = pick(random, 1, 9), half = pick(random, 1, 20);
    shape.push_back(rows), shape.push_back(2 * half);
    Array<T> x = strided<T>(shape, random), y(shape);
    randomize(x, random);
    const Pairs pairs = run % 2 ? Pairs::half_split : Pairs::adjacent;
    const bool inverse = run % 3 == 0, given = run % 5 < 2;
    const Index start = pick(random, -3, 50);
    Array<std::int32_t> positions = strided<std::int32_t>(Shape{rows}, random);
    randomize(positions, random);
    rotary(x.in(), pairs, given ? positions.in() : ConstView{}, start, 100, inverse, y.out());
    for (Index row = 0; row < shape.elements() / (2 * half); ++row)
      for (Index i = 0; i < half; ++i) {
        const Index t = row % rows, first = row * 2 * half + (pairs == Pairs::half_split ? i : 2 * i);
        const Index second = first + (pairs == Pairs::half_split ? half : 1);
        const double position = given ? positions[t] : static_cast<double>(start + t);
        const double angle =
            (inverse ? -1 : 1) * position * std::pow(100, -static_cast<double>(i) / static_cast<double>(half));
        const double a = static_cast<double>(x[first]), b = static_cast<double>(x[second]);
        expect_near(static_cast<double>(y[first]), a * std::cos(angle) - b * std::sin(angle), 0, 20 * epsilon<T>);
        expect_near(static_cast<double>(y[second]), b * std::cos(angle) + a * std::sin(angle), 0, 20 * epsilon<T>);
      }
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(RotaryKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(2);
  Array<T> x(Shape{8, 120, 64});
  randomize(x, random);
  for (const Pairs pairs : {Pairs::half_split, Pairs::adjacent})
    expect_same_bytes(Region::elementwise, [&] {
      Array<T> y(x.shape());
      rotary(x.in(), pairs, {}, 5, 10000, false, y.out());
      return y.bytes();
    });
}

}  // namespace
}  // namespace capstan::kernels::test
