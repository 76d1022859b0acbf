// Softmax, log-softmax and log-sum-exp: values, extreme rows, memory layouts, errors. Gradient checks:
// samples/softmax_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

using Function = Tensor (*)(const Tensor&, int);

Tensor gradient(Function f, const Tensor& x, const Tensor& up, int axis = -1, BackwardOptions options = {}) {
  Tape tape;
  const Tensor watched = tape.watch(x);
  return tape.backward(f(watched, axis), up, options).of(watched).detach();
}

TEST(Softmax, HandValues) {
  expect_near(softmax(tensor({0, 1}, DType::f64)), {2}, {0.2689414213699951, 0.7310585786300049}, 1e-15);
  expect_near(log_softmax(tensor({0.1, 0.9}, DType::f64)), {2}, {-1.1711006659477774, -0.3711006659477775}, 1e-15);
}

TEST(Softmax, OfATransposeFollowsLogicalRows) {
  const Tensor x = tensor({{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, DType::f64);
  const Tensor y = softmax(transpose(x), 1);
  const Tensor row = slice(y, 0, 0, 1);
  expect_near(row, {1, 3}, {0.00032932, 0.01798029, 0.98169035}, 1e-7);
  expect_near(log_softmax(transpose(x), 1), {4, 3}, log_softmax(transpose(x).dense(), 1).to_doubles(), 1e-15);
}

TEST(Softmax, NegativeAxesCountFromTheEnd) {
  const Tensor x = draw(1, {2, 2, 4, 4}), up = draw(2, {2, 2, 4, 4});
  for (const Function f : {static_cast<Function>(softmax), static_cast<Function>(log_softmax)}) {
    expect_exactly(f(x, -1), x.shape(), f(x, 3).to_doubles());
    expect_exactly(gradient(f, x, up, -1), x.shape(), gradient(f, x, up, 3).to_doubles());
  }
}

TEST(Softmax, RowsSumToOne) {
  const Tensor y = softmax(draw(3, {5, 7, 3}), 1);
  for (const double total : sum(y, 1).to_doubles()) EXPECT_NEAR(total, 1, 1e-15);
}

TEST(LogSoftmax, GradientOfAnEvenCotangent) {
  const Tensor x = tensor({0.1, 0.9}, DType::f64);
  for (const bool create_graph : {false, true})
    expect_near(gradient(log_softmax, x, ones({2}, DType::f64), -1, {.create_graph = create_graph}), {2},
                {0.3799489622552249, -0.3799489622552249}, 1e-15);
}

TEST(LogSoftmax, ReadsOnlyItsPartOfAWiderCotangent) {
  // Columns 0 to 9 of [4, 20] are 0, the others are not.
  const Tensor wide = concat({zeros({4, 10}, DType::f64), draw(4, {4, 10})}, 1);
  const Tensor up = slice(wide, 1, 0, 10);
  for (const bool create_graph : {false, true})
    expect_exactly(gradient(log_softmax, draw(5, {4, 10}), up, -1, {.create_graph = create_graph}), {4, 10},
                   std::vector<double>(40, 0.0));
}

TEST(Softmax, AnAxisOfLengthOneIsConstant) {
  const Tensor x = draw(6, {5, 1, 24});
  expect_exactly(softmax(x, 1), {5, 1, 24}, std::vector<double>(120, 1.0));
  expect_exactly(log_softmax(x, 1), {5, 1, 24}, std::vector<double>(120, 0.0));
  for (const bool create_graph : {false, true}) {
    const BackwardOptions options{.create_graph = create_graph};
    expect_exactly(gradient(softmax, x, draw(7, {5, 1, 24}), 1, options), {5, 1, 24}, std::vector<double>(120, 0.0));
    expect_exactly(gradient(log_softmax, x, draw(7, {5, 1, 24}), 1, options), {5, 1, 24},
                   std::vector<double>(120, 0.0));
  }
}

TEST(Softmax, EveryLengthWithLeadingInfinities) {
  for (Index length = 1; length <= 70; ++length) {
    for (const Index masked : {Index{0}, Index{1}, length / 2, length - 1, length}) {
      std::vector<double> x = draw(8, {length}).to_doubles(), expected(x.size()), logs(x.size());
      for (Index i = 0; i < masked; ++i) x[static_cast<std::size_t>(i)] = -infinity;
      double total = 0;
      for (const double value : x) total += std::exp(value);
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected[i] = masked == length ? nan : std::exp(x[i]) / total;
        logs[i] = masked == length ? nan : x[i] - std::log(total);
      }
      const std::vector<double> y = softmax(tensor(x, Shape{length})).to_doubles();
      const std::vector<double> z = log_softmax(tensor(x, Shape{length})).to_doubles();
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (masked == length) {
          EXPECT_TRUE(std::isnan(y[i]) && std::isnan(z[i])) << length << " entries, " << masked << " of them -inf";
        } else if (std::isinf(x[i])) {
          EXPECT_EQ(y[i], 0);
          EXPECT_EQ(z[i], -infinity);
        } else {
          EXPECT_NEAR(y[i], expected[i], 1e-14) << length << " entries, " << masked << " of them -inf";
          EXPECT_NEAR(z[i], logs[i], 1e-13);
        }
      }
    }
  }
}

TEST(Softmax, MinusInfinityIsExactlyNothing) {
  expect_exactly(softmax(tensor({0, -infinity}, DType::f64)), {2}, {1, 0});
  expect_exactly(log_softmax(tensor({0, -infinity}, DType::f64)), {2}, {0, -infinity});
}

TEST(Softmax, PlusInfinityHasNoWeight) {
  expect_exactly(softmax(tensor({0, infinity}, DType::f64)), {2}, {nan, nan});
  expect_exactly(log_softmax(tensor({0, infinity}, DType::f64)), {2}, {nan, nan});
}

TEST(Softmax, LargeLogitsStayFinite) {
  expect_near(softmax(tensor({1000, 1001}, DType::f64)), {2}, {0.2689414213699951, 0.7310585786300049}, 1e-15);
  expect_near(log_softmax(tensor({-1000, 1000}, DType::f64)), {2}, {-2000, 0}, 1e-15);
}

TEST(Softmax, EmptyTensorsPassThrough) {
  expect_exactly(softmax(zeros({3, 0})), {3, 0}, {});
  expect_exactly(log_softmax(zeros({0, 3})), {0, 3}, {});
}

TEST(Softmax, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { softmax(zeros({2, 3}), 2); }), "softmax: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([] { log_softmax(zeros({})); }), "log_softmax: axis must be in [0, 0); got -1 for shape []");
  EXPECT_EQ(error_of([] { softmax(zeros({2}, DType::i32)); }), "softmax: x must be f32 or f64; got i32; cast it first");
}

// ---- masked softmax -------------------------------------------------------------------------------------------------

TEST(MaskedSoftmax, HandValues) {
  const Tensor x = tensor({{0, 1, 9}, {5, 0, 1}}, DType::f64);
  const Tensor keep = tensor({{1, 1, 0}, {0, 1, 1}}, DType::f64) > 0.0;
  const double low = 0.2689414213699951, high = 0.7310585786300049;
  expect_near(masked_softmax(x, keep), {2, 3}, {low, high, 0, 0, low, high}, 1e-15);
  expect_near(masked_softmax(transpose(x), transpose(keep), 0), {3, 2}, {low, 0, high, low, 0, high}, 1e-15);
}

TEST(MaskedSoftmax, IsTheSoftmaxWithMinusInfinityElsewhere) {
  const Tensor x = draw(20, {2, 3, 4, 5}), up = draw(21, {2, 3, 4, 5});
  // Every row keeps its first element, or softmax would be NaN.
  for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{4, 5}, Shape{2, 1, 1, 5}, Shape{5}}) {
    const Tensor first = tensor({1, 0, 0, 0, 0}, DType::f64) > 0.0;
    const Tensor keep = logical_or(draw(22, shape) > 0.0, first);
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor a = tape.watch(x), b = tape.watch(x);
      const Tensor got = masked_softmax(a, keep), want = softmax(where(keep, b, -infinity));
      expect_near(got, x.shape(), want.to_doubles(), 1e-15);
      const Gradients g = tape.backward({{got, up}, {want, up}}, {.create_graph = create_graph});
      expect_near(g.of(a).detach(), x.shape(), g.of(b).detach().to_doubles(), 1e-15);
    }
  }
}

TEST(MaskedSoftmax, ARowWithNothingKeptIsZeroAndSoIsItsGradient) {
  const Tensor x = tensor({{nan, infinity}, {1, 1}}, DType::f64), up = tensor({{nan, infinity}, {1, 3}}, DType::f64);
  const Tensor keep = tensor({{0, 0}, {1, 1}}, DType::f64) > 0.0;
  const auto f = [&](const Tensor& t) { return masked_softmax(t, keep); };
  expect_exactly(f(x), {2, 2}, {0, 0, 0.5, 0.5});
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor watched = tape.watch(x);
    expect_exactly(tape.backward(f(watched), up, {.create_graph = create_graph}).of(watched).detach(), {2, 2},
                   {0, 0, -0.5, 0.5});
  }
  expect_exactly(masked_softmax(zeros({2, 0}), zeros({2, 0}) > 0.0), {2, 0}, {});
}

TEST(MaskedSoftmax, WhereNothingFiniteIsKeptItIsNaNThereAndZeroElsewhere) {
  for (const Index length : {3, 50}) {
    const Tensor keep = arange(0, static_cast<double>(length), 1, DType::f64) < static_cast<double>(length - 1);
    std::vector<double> want(static_cast<std::size_t>(length), nan);
    want.back() = 0;
    for (const double value : {-infinity, infinity, nan})
      expect_exactly(masked_softmax(where(keep, value, zeros({length}, DType::f64)), keep), {length}, want);
  }
}

TEST(MaskedSoftmax, NamesWhatDoesNotFit) {
  const Tensor keep = zeros({2, 3}) > 0.0;
  EXPECT_EQ(error_of([&] {
              masked_softmax(zeros({2, 3}), zeros({2, 3}));
            }),
            "masked_softmax: keep must be bool; got f32; cast or compare it first");
  EXPECT_EQ(error_of([&] {
              masked_softmax(zeros({3, 3}), keep);
            }),
            "masked_softmax: keep must broadcast to x's shape; got keep [2, 3] and x [3, 3]");
  EXPECT_EQ(error_of([&] { masked_softmax(zeros({3}), keep); }),
            "masked_softmax: keep must broadcast to x's shape; got keep [2, 3] and x [3]");
  EXPECT_EQ(error_of([&] {
              masked_softmax(zeros({2, 3}, DType::i32), keep);
            }),
            "masked_softmax: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { masked_softmax(Tensor(), keep); }),
            "masked_softmax: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] {
              masked_softmax(zeros({2, 3}), keep, 2);
            }),
            "masked_softmax: axis must be in [-2, 2); got 2 for shape [2, 3]");
}

// ---- log-sum-exp ----------------------------------------------------------------------------------------------------

TEST(LogSumExp, HandValues) {
  const Tensor x = tensor({{0, 1}, {1000, 1000}, {-1000, -1001}}, DType::f64);
  const std::vector<double> want = {1.3132616875182228, 1000.6931471805599, -999.6867383124818};
  expect_near(logsumexp(x), {3}, want, 1e-15);
  expect_near(logsumexp(x, 1, keep_axes), {3, 1}, want, 1e-15);
  expect_near(logsumexp(transpose(x), 0), {3}, want, 1e-15);
  expect_near(logsumexp(tensor({1e4, 1e4})), {}, {10000.693147180559}, 1e-7);
  expect_exactly(logsumexp(tensor({{7}, {-3}}, DType::f64)), {2}, {7, -3});
}

TEST(LogSumExp, TheGradientIsSoftmax) {
  const Tensor x = draw(9, {4, 5}), up = draw(10, {4});
  const auto f = [](const Tensor& t, int axis) { return logsumexp(t, axis); };
  for (const bool create_graph : {false, true})
    expect_near(gradient(f, x, up, 1, {.create_graph = create_graph}), {4, 5},
                (softmax(x, 1) * reshape(up, Shape{4, 1})).to_doubles(), 1e-15);
}

TEST(LogSumExp, OfARowOfMinusInfinityIsMinusInfinityWithGradientZero) {
  const Tensor x = tensor({{-infinity, -infinity}, {-infinity, 2}, {0, 0}}, DType::f64),
               up = tensor({3, 5, 8}, DType::f64);
  const auto f = [](const Tensor& t, int axis) { return logsumexp(t, axis); };
  for (const DType dtype : {DType::f64, DType::f32})
    expect_near(slice(logsumexp(cast(x, dtype)), 0, 1, 3), {2}, {2, std::log(2.0)}, 1e-7);
  EXPECT_EQ(logsumexp(x).at({0}), -infinity);
  for (const bool create_graph : {false, true})
    expect_exactly(gradient(f, x, up, 1, {.create_graph = create_graph}), {3, 2}, {0, 0, 0, 5, 4, 4});
  // At order 2 as well: d/dx Σ (dy ⊙ softmax(x))² where finite.
  Tape tape;
  const Tensor watched = tape.watch(x);
  const Tensor first = tape.backward(logsumexp(watched), up, {.create_graph = true}).of(watched);
  for (const double slope : tape.backward(sum(first * first)).of(watched).to_doubles()) EXPECT_EQ(slope, 0);
}

TEST(LogSumExp, OfPlusInfinityIsPlusInfinityWithoutAGradient) {
  const Tensor x =
      tensor({{infinity, 0}, {infinity, -infinity}, {nan, infinity}, {nan, -infinity}, {nan, 0}}, DType::f64);
  expect_exactly(logsumexp(x), {5}, {infinity, infinity, nan, nan, nan});
  const auto f = [](const Tensor& t, int axis) { return logsumexp(t, axis); };
  for (const bool create_graph : {false, true})
    expect_exactly(gradient(f, x, ones({5}, DType::f64), 1, {.create_graph = create_graph}), {5, 2},
                   std::vector<double>(10, nan));
}

TEST(LogSumExp, EveryLengthWithLeadingInfinities) {
  for (Index length = 1; length <= 70; ++length)
    for (const Index masked : {Index{0}, Index{1}, length / 2, length - 1}) {
      std::vector<double> x = draw(8, {length}).to_doubles();
      double total = 0;
      for (Index i = 0; i < masked; ++i) x[static_cast<std::size_t>(i)] = -infinity;
      for (const double value : x) total += std::exp(value);
      const Tensor row = tensor(x, Shape{length});
      const double want = total == 0 ? -infinity : std::log(total);
      if (total == 0) {
        EXPECT_EQ(logsumexp(row).item(), want);
      } else {
        EXPECT_NEAR(logsumexp(row).item(), want, 1e-14) << length << " entries, " << masked << " of them -inf";
        EXPECT_NEAR(logsumexp(cast(row, DType::f32)).item(), want, 2e-6);
      }
    }
}

TEST(LogSumExp, OfNothingIsMinusInfinity) {
  expect_exactly(logsumexp(zeros({2, 0}), 1), {2}, {-infinity, -infinity});
  expect_exactly(logsumexp(zeros({0, 3}), 1), {0}, {});
  const auto f = [](const Tensor& t, int axis) { return logsumexp(t, axis); };
  for (const bool create_graph : {false, true})
    expect_exactly(gradient(f, zeros({2, 0}), ones({2}), 1, {.create_graph = create_graph}), {2, 0}, {});
}

TEST(LogSumExp, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              logsumexp(zeros({2, 3}), 2);
            }),
            "logsumexp: axis must be in [-2, 2); got 2 for shape [2, 3]");
  EXPECT_EQ(error_of([] { logsumexp(zeros({2}, DType::i32)); }),
            "logsumexp: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([] { logsumexp(Tensor()); }),
            "logsumexp: x must hold a value; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan::test
