#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/cross_entropy.h>

namespace capstan::kernels::test {
namespace {

template <class T>
struct Results {
  Array<T> loss, dlogits;
};

template <class T>
Results<T> run(const Array<T>& logits, const Array<std::int32_t>& targets, std::int64_t ignore, double smoothing,
               const Array<T>& dloss, ConstView weights = {}) {
  Results<T> r{Array<T>(targets.shape()), Array<T>(logits.shape())};
  r.loss.fill_all(9), r.dlogits.fill_all(9);
  cross_entropy(logits.in(), targets.in(), weights, ignore, smoothing, r.loss.out());
  cross_entropy_backward(logits.in(), targets.in(), weights, ignore, smoothing, dloss.in(), r.dlogits.out());
  return r;
}

template <class T>
class CrossEntropyKernels : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(CrossEntropyKernels, Floats);

TYPED_TEST(CrossEntropyKernels, EqualTheNaiveFormForAnyStrides) {
  using T = TypeParam;
  for_each_target([] {
    Random random(1);
    for (int i = 0; i < 100; ++i) {
      const Shape rows = random_shape(random, 2, 9);
      const Index classes = pick(random, 1, 60);
      Shape shape = rows;
      shape.push_back(classes);
      Array<T> logits = strided<T>(shape, random), dloss = strided<T>(rows, random);
      Array<std::int32_t> targets = strided<std::int32_t>(rows, random);
      randomize(logits, random, 4), randomize(dloss, random);
      for (Index r = 0; r < targets.elements(); ++r)
        targets[r] = static_cast<std::int32_t>(pick(random, -1, classes - 1));
      const double smoothing = i % 2 ? 0 : 0.1;
      const bool weighted = i % 3 != 0;
      Array<T> weights = strided<T>(Shape{classes}, random);
      randomize(weights, random);
      const Results<T> got = run(logits, targets, -1, smoothing, dloss, weighted ? weights.in() : ConstView{});
      for (Index r = 0; r < targets.elements(); ++r) {
        double largest = -INFINITY, sum = 0, want = 0;
        const auto x = [&](Index c) { return static_cast<double>(logits[r * classes + c]); };
        for (Index c = 0; c < classes; ++c) largest = std::max(largest, x(c));
        for (Index c = 0; c < classes; ++c) sum += std::exp(x(c) - largest);
        const double lse = largest + std::log(sum);
        const bool ignored = targets[r] == -1;
        const auto wq = [&](Index c) {
          const double q = (c == targets[r] ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
          return weighted ? q * static_cast<double>(weights[c]) : q;
        };
        double total = 0;
        for (Index c = 0; c < classes; ++c) total += wq(c);
        for (Index c = 0; c < classes; ++c) {
          want -= wq(c) * (x(c) - lse);
          const double gradient = static_cast<double>(dloss[r]) * (total * std::exp(x(c) - lse) - wq(c));
          expect_near(static_cast<double>(got.dlogits[r * classes + c]), ignored ? 0 : gradient, 50 * epsilon<T>,
                      ignored ? 0 : 20 * epsilon<T>);
        }
        expect_near(static_cast<double>(got.loss[r]), ignored ? 0 : want, 50 * epsilon<T>,
                    ignored ? 0 : 50 * epsilon<T>);
      }
      if (testing::Test::HasFailure()) return;
    }
  });
}

TYPED_TEST(CrossEntropyKernels, InPlaceOfTheLogitsTheBitsAreTheSame) {
  using T = TypeParam;
  for_each_target([] {
    Random random(5);
    for (int i = 0; i < 20; ++i) {
      const Index rows = pick(random, 1, 9), classes = pick(random, 1, 60);
      Array<T> logits(Shape{rows, classes}), dloss(Shape{rows}), weights(Shape{classes}), losses(Shape{rows});
      Array<std::int32_t> targets(Shape{rows});
      randomize(logits, random, 4), randomize(weights, random);
      dloss.fill_all(static_cast<T>(0.25));
      for (Index r = 0; r < rows; ++r) targets[r] = static_cast<std::int32_t>(pick(random, -1, classes - 1));
      const double smoothing = i % 2 ? 0 : 0.1;
      const ConstView weight = i % 3 ? weights.in() : ConstView{};
      const Results<T> want = run(logits, targets, -1, smoothing, dloss, weight);
      Array<T> backward = logits.dense(), both = logits.dense();
      cross_entropy_backward(backward.in(), targets.in(), weight, -1, smoothing, dloss.in(), backward.out());
      cross_entropy_in_place(both.out(), targets.in(), weight, -1, smoothing, 0.25, losses.out());
      EXPECT_EQ(backward.bytes(), want.dlogits.bytes());
      EXPECT_EQ(both.bytes(), want.dlogits.bytes());
      EXPECT_EQ(losses.bytes(), want.loss.bytes());
    }
  });
}

TYPED_TEST(CrossEntropyKernels, ExtremeLogits) {
  using T = TypeParam;
  for_each_target([] {
    const Array<T> logits(Shape{1, 3}, {-431, 279, 427}), dloss(Shape{1}, {1});
    Array<std::int32_t> targets(Shape{1});
    targets[0] = 0;
    const Results<T> got = run(logits, targets, -1, 0, dloss);
    EXPECT_EQ(got.loss[0], 858);
    EXPECT_EQ(got.dlogits[0], -1);
    EXPECT_EQ(got.dlogits[2], 1);
    expect_near(static_cast<double>(got.dlogits[1]), std::is_same_v<T, double> ? std::exp(-148.0) : 0, 1e-13, 0);
  });
}

TYPED_TEST(CrossEntropyKernels, AnImpossibleClassCostsNothingUnlessItIsTheTarget) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  Array<T> logits(Shape{2, 2}), dloss(Shape{2}, {1, 1});
  logits[1] = logits[3] = -inf;
  Array<std::int32_t> targets(Shape{2});
  targets[0] = 0, targets[1] = 1;
  const Results<T> got = run(logits, targets, -1, 0, dloss);
  EXPECT_EQ(got.loss[0], 0);
  EXPECT_EQ(got.loss[1], inf);
  EXPECT_EQ(got.dlogits[0], 0);
  EXPECT_EQ(got.dlogits[1], 0);
}

TYPED_TEST(CrossEntropyKernels, AClassOfWeightZeroCountsForNothing) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  Array<T> logits(Shape{2, 3}, {0, 0, 0, 0, 0, 0}), dloss(Shape{2}, {1, 1});
  const Array<T> weights(Shape{3}, {1, 0, 2});
  logits[1] = logits[4] = -inf;
  Array<std::int32_t> targets(Shape{2});
  targets[0] = 0, targets[1] = 1;
  for (const double smoothing : {0.0, 0.3}) {
    const Results<T> got = run(logits, targets, -1, smoothing, dloss, weights.in());
    const double log2 = std::log(2.0), share = smoothing / 3;
    expect_near(static_cast<double>(got.loss[0]), (1 - smoothing + 3 * share) * log2, 0, 4 * epsilon<T>);
    expect_near(static_cast<double>(got.loss[1]), 3 * share * log2, 0, 4 * epsilon<T>);
    for (Index i = 0; i < 6; ++i) EXPECT_TRUE(std::isfinite(got.dlogits[i]));
  }
}

TYPED_TEST(CrossEntropyKernels, IgnoredRowsAreNotRead) {
  using T = TypeParam;
  Array<T> logits(Shape{2, 2}, {NAN, NAN, 3, 0.4}), dloss(Shape{2}, {NAN, 1});
  Array<std::int32_t> targets(Shape{2});
  targets[0] = 255, targets[1] = 1;
  const Results<T> got = run(logits, targets, 255, 0.1, dloss);
  EXPECT_EQ(got.loss[0], 0);
  EXPECT_EQ(got.dlogits[0], 0);
  EXPECT_EQ(got.dlogits[1], 0);
  expect_near(static_cast<double>(got.loss[1]), 2.5416447, 0, 1e-6);
}

TYPED_TEST(CrossEntropyKernels, SameBytesForAnyThreadCount) {
  using T = TypeParam;
  Random random(2);
  Array<T> logits(Shape{300, 256}), dloss(Shape{300});
  Array<std::int32_t> targets(Shape{300});
  randomize(logits, random), randomize(dloss, random);
  for (Index r = 0; r < 300; ++r) targets[r] = static_cast<std::int32_t>(pick(random, 0, 255));
  expect_same_bytes(Region::cross_entropy, [&] {
    const Results<T> got = run(logits, targets, -1, 0.1, dloss);
    return got.loss.bytes() + got.dlogits.bytes();
  });
}

}  // namespace
}  // namespace capstan::kernels::test
