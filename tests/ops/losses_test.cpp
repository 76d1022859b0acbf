// ops/losses.h: values by hand, what is ignored or impossible, tails, gradient checks at both orders, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/losses.h>
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
const double nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType dtypes[] = {DType::f32, DType::f64};
constexpr Reduction reductions[] = {Reduction::none, Reduction::sum, Reduction::mean};

Tensor f64(const NestedList& list) { return tensor(list, DType::f64); }
Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }
Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }
Tensor between(std::uint64_t seed, const Shape& shape, double low, double high) {
  return uniform(Key{.seed = seed}, shape, low, high, DType::f64);
}

/// Orders 1 and 2 of f at `inputs`.
template <class F>
void expect_gradients(const F& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& exactly_zero = {}) {
  const GradcheckReport report = gradcheck([&](const std::vector<Tensor>& x) { return std::vector{f(x)}; }, inputs,
                                           {.exactly_zero = exactly_zero});
  EXPECT_TRUE(report.passed) << report.failure;
}

// ---- nll_loss -------------------------------------------------------------------------------------------------------

TEST(NllLoss, ByHand) {
  const Tensor p = f64({{-3, -0.5}, {-1, -2}, {-4, -5}});
  const Tensor targets = ids({0, 1, 0}, {3});
  expect_exactly(nll_loss(p, targets, {.reduction = Reduction::none}), {3}, {3, 2, 4});
  EXPECT_EQ(nll_loss(p, targets, {.reduction = Reduction::sum}).item(), 9);
  EXPECT_EQ(nll_loss(p, targets).item(), 3);
  const Tensor weights = f64({2, 0.5});
  expect_exactly(nll_loss(p, targets, {.weights = weights, .reduction = Reduction::none}), {3}, {6, 1, 8});
  EXPECT_NEAR(nll_loss(p, targets, {.weights = weights}).item(), 15 / 4.5, 1e-15);
  EXPECT_NEAR(nll_loss(p, targets, {.ignore_index = 1, .weights = weights}).item(), 14 / 4.0, 1e-15);
  expect_exactly(nll_loss(f64({-1, -2}), ids({1}, {})), {}, {2});
}

TEST(NllLoss, OfLogSoftmaxIsCrossEntropy) {
  const Tensor x = draw(1, {2, 3, 5}), targets = ids({0, 4, -1, 2, 2, 1}, {2, 3});
  const Tensor weights = between(2, {5}, 0.5, 2);
  for (const Tensor& w : {Tensor(), weights}) {
    for (const Reduction reduction : reductions) {
      const auto composed = [&](const Tensor& t) {
        return sum(nll_loss(log_softmax(t), targets, {.ignore_index = -1, .weights = w, .reduction = reduction}));
      };
      const auto whole = [&](const Tensor& t) {
        return sum(cross_entropy(t, targets, {.ignore_index = -1, .weights = w, .reduction = reduction}));
      };
      const auto [a, da] = value_and_grad(x, composed);
      const auto [b, db] = value_and_grad(x, whole);
      EXPECT_NEAR(a.item(), b.item(), 1e-14);
      expect_near(da, x.shape(), db.to_doubles(), 1e-15);
    }
  }
}

TEST(NllLoss, OtherClassesAndIgnoredTokensMayHoldAnything) {
  const Tensor p = f64({{-infinity, -1, nan}, {nan, nan, nan}, {-2, -infinity, nan}});
  const Tensor targets = ids({1, 2, 0}, {3});
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor x = tape.watch(p);
    const Tensor loss = nll_loss(x, targets, {.ignore_index = 2, .reduction = Reduction::none});
    expect_exactly(loss, {3}, {1, 0, 2});
    const Gradients g = tape.backward(loss, f64({1, 1, 1}), {.create_graph = create_graph});
    expect_exactly(g.of(x).detach(), {3, 3}, {0, -1, 0, 0, 0, 0, -1, 0, 0});
  }
}

TEST(NllLoss, WithNothingKeptTheMeanIsZero) {
  const Tensor p = draw(3, {2, 3});
  for (const NllLossOptions& options : {NllLossOptions{.ignore_index = 1}, NllLossOptions{.weights = f64({1, 0, 1})}}) {
    const auto [value, gradient] = value_and_grad(p, [&](const Tensor& x) {
      return nll_loss(x, ids({1, 1}, {2}), options);
    });
    EXPECT_EQ(value.item(), 0);
    expect_exactly(gradient, {2, 3}, std::vector<double>(6, 0.0));
  }
  EXPECT_EQ(nll_loss(zeros({0, 3}), ids({}, {0})).item(), 0);
}

TEST(NllLoss, ATokenOfWeightZeroCountsForNothing) {
  const auto [value, gradient] = value_and_grad(f64({{-1, -infinity}, {-3, -1}}), [](const Tensor& x) {
    return nll_loss(x, ids({1, 0}, {2}), {.weights = f64({2, 0})});
  });
  EXPECT_EQ(value.item(), 3);
  expect_exactly(gradient, {2, 2}, {0, 0, -1, 0});
}

TEST(NllLoss, Gradients) {
  const Tensor targets = ids({1, -1, 0}, {3}), p = between(4, {3, 4}, -3, -0.1);
  for (const Reduction reduction : reductions)
    expect_gradients(
        [&](const std::vector<Tensor>& x) {
          return nll_loss(x[0] * x[0], targets,
                          {.ignore_index = -1, .weights = f64({1, 2, 0.5, 1}), .reduction = reduction});
        },
        {p});
  expect_gradients(
      [](const std::vector<Tensor>& x) {
        return nll_loss(x[0], ids({2, 0}, {2}));
      },
      {transpose(between(5, {3, 2}, -3, -0.1))});
}

TEST(NllLoss, NamesWhatDoesNotFit) {
  const Tensor p = draw(6, {2, 3}), targets = ids({0, 1}, {2});
  EXPECT_EQ(error_of([&] { nll_loss(p, ids({0, 3}, {2})); }), "nll_loss: targets must be in [0, 3); got 3 at [1]");
  EXPECT_EQ(error_of([&] {
              nll_loss(p, ids({-4, 1}, {2}), {.ignore_index = -1});
            }),
            "nll_loss: targets must be in [0, 3) or the ignored -1; got -4 at [0]");
  EXPECT_EQ(error_of([&] { nll_loss(p, ids({0}, {1})); }),
            "nll_loss: log_probabilities must be [targets..., V]; got log_probabilities [2, 3] and targets [1]");
  EXPECT_EQ(error_of([&] { nll_loss(p, p); }), "nll_loss: targets must be i32; got f64; cast it first");
  EXPECT_EQ(error_of([&] { nll_loss(targets, targets); }),
            "nll_loss: log_probabilities must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] {
              nll_loss(p, targets, {.weights = f64({1, 2})});
            }),
            "nll_loss: weights must be [V] = [3]; got [2]");
  EXPECT_EQ(error_of([&] {
              nll_loss(p, targets, {.weights = tensor({1, 2, 3})});
            }),
            "nll_loss: log_probabilities and weights must have one dtype; got f64 and f32; cast one of them");
  Tape tape;
  const Tensor recorded = tape.watch(f64({1, 2, 3}));
  EXPECT_EQ(error_of([&] { nll_loss(p, targets, {.weights = recorded}); }),
            "nll_loss: weights must be constants; got a recorded tensor; detach() it first");
  EXPECT_EQ(error_of([&] { nll_loss(p, Tensor()); }),
            "nll_loss: targets must hold a value; got an empty handle; assign a tensor to it first");
}

// ---- mse_loss -------------------------------------------------------------------------------------------------------

TEST(MseLoss, ByHand) {
  const Tensor x = f64({1, 2}), y = f64({1, 4});
  expect_exactly(mse_loss(x, y, Reduction::none), {2}, {0, 4});
  EXPECT_EQ(mse_loss(x, y, Reduction::sum).item(), 4);
  EXPECT_EQ(mse_loss(x, y).item(), 2);
  expect_exactly(grad(x, [&](const Tensor& t) { return mse_loss(t, y); }), {2}, {0, -2});
  EXPECT_EQ(mse_loss(zeros({0}), zeros({0})).item(), 0);
}

TEST(MseLoss, Gradients) {
  for (const Reduction reduction : reductions)
    expect_gradients([&](const std::vector<Tensor>& x) { return mse_loss(x[0], x[1], reduction); },
                     {draw(7, {2, 3}), transpose(draw(8, {3, 2}))});
}

TEST(MseLoss, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([&] {
              mse_loss(ones({3}), ones({3, 1}));
            }),
            "mse_loss: x and y must have one shape; got [3] and [3, 1]; reshape one of them");
  EXPECT_EQ(error_of([&] {
              mse_loss(ones({3}), f64({1, 2, 3}));
            }),
            "mse_loss: x and y must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error_of([&] { mse_loss(ones({3}, DType::i32), ones({3}, DType::i32)); }),
            "mse_loss: x must be f32 or f64; got i32; cast it first");
}

// ---- binary_cross_entropy_with_logits --------------------------------------------------------------------------------

Tensor binary(const Tensor& x, const Tensor& t, Reduction reduction = Reduction::none) {
  return binary_cross_entropy_with_logits(x, t, {.reduction = reduction});
}

TEST(BinaryCrossEntropy, EqualsTheStableFormula) {
  const Tensor x = between(9, {50}, -30, 30), t = between(10, {50}, 0, 1);
  const std::vector<double> xs = x.to_doubles(), ts = t.to_doubles();
  std::vector<double> loss, slope;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    loss.push_back(std::max(xs[i], 0.0) - xs[i] * ts[i] + std::log1p(std::exp(-std::abs(xs[i]))));
    slope.push_back(1 / (1 + std::exp(-xs[i])) - ts[i]);
  }
  expect_near(binary(x, t), {50}, loss, 1e-14);
  expect_near(grad(x, [&](const Tensor& z) { return binary(z, t, Reduction::sum); }), {50}, slope, 1e-15);
  EXPECT_NEAR(binary(x, t, Reduction::mean).item(), binary(x, t, Reduction::sum).item() / 50, 1e-14);
}

TEST(BinaryCrossEntropy, LogitsOfAThousandAreExact) {
  for (const DType dtype : dtypes) {
    const Tensor x = tensor({1000, -1000, 1000, -1000, 1000}, dtype), t = tensor({0, 1, 1, 0, 0.25}, dtype);
    expect_exactly(binary(x, t), {5}, {1000, 1000, 0, 0, 750});
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor z = tape.watch(x);
      const Tensor first = tape.backward(binary(z, t, Reduction::sum), {.create_graph = create_graph}).of(z);
      expect_exactly(first.detach(), {5}, {1, -1, 0, 0, 0.75});
      if (create_graph) expect_exactly(tape.backward(sum(first)).of(z), {5}, {0, 0, 0, 0, 0});
    }
  }
}

TEST(BinaryCrossEntropy, AConfidentlyRightLogitKeepsItsDigits) {
  // log(1 + e⁻⁴⁰) and −σ(−40), both 4.248e−18: lost in max(x, 0) + … or in σ(x) − 1.
  const auto [loss, slope] = value_and_grad(f64(40), [](const Tensor& x) { return binary(x, f64(1)); });
  EXPECT_NEAR(loss.item() / 4.248354255291589e-18, 1, 1e-13);
  EXPECT_NEAR(slope.item() / -4.248354255291589e-18, 1, 1e-13);
}

TEST(BinaryCrossEntropy, WeightsByHand) {
  const Tensor x = f64({{0, 0}, {0, 0}}), t = f64({{1, 0}, {1, 0}});
  const double l = std::log(2.0);
  expect_near(binary_cross_entropy_with_logits(x, t, {.weights = f64({{2}, {1}}), .reduction = Reduction::none}),
              {2, 2}, {2 * l, 2 * l, l, l}, 1e-15);
  expect_near(binary_cross_entropy_with_logits(x, t, {.positive_weight = f64({3, 5}), .reduction = Reduction::none}),
              {2, 2}, {3 * l, l, 3 * l, l}, 1e-15);
  // The mean divides by the number of elements, whatever the weights.
  EXPECT_NEAR(binary_cross_entropy_with_logits(x, t, {.weights = f64(6)}).item(), 6 * l, 1e-14);
}

TEST(BinaryCrossEntropy, Gradients) {
  const Tensor x = draw(11, {2, 3}), t = between(12, {2, 3}, 0.1, 0.9);
  for (const Reduction reduction : reductions)
    expect_gradients([&](const std::vector<Tensor>& in) { return binary(in[0], in[1], reduction); }, {x, t});
  expect_gradients(
      [](const std::vector<Tensor>& in) {
        return binary_cross_entropy_with_logits(
            in[0], in[1], {.weights = in[2], .positive_weight = in[3], .reduction = Reduction::none});
      },
      {x, t, between(13, {2, 1}, 0.5, 2), between(14, {3}, 0.5, 2)});
}

TEST(BinaryCrossEntropy, NamesWhatDoesNotFit) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(
      error_of([&] { binary(x, ones({2})); }),
      "binary_cross_entropy_with_logits: logits and targets must have one shape; got [2, 3] and [2]; reshape one of "
      "them");
  EXPECT_EQ(
      error_of([&] {
        binary(x, ones({2, 3}, DType::i32));
      }),
      "binary_cross_entropy_with_logits: logits and targets must have one dtype; got f32 and i32; cast one of them");
  EXPECT_EQ(error_of([&] { binary_cross_entropy_with_logits(x, x, {.weights = ones({2})}); }),
            "binary_cross_entropy_with_logits: weights must broadcast to the logits' shape; got [2] and logits [2, 3]");
  EXPECT_EQ(error_of([&] {
              binary_cross_entropy_with_logits(x, x, {.positive_weight = ones({4, 2, 3})});
            }),
            "binary_cross_entropy_with_logits: positive_weight must broadcast to the logits' shape; got [4, 2, 3] and "
            "logits [2, 3]");
  EXPECT_EQ(
      error_of([&] { binary_cross_entropy_with_logits(x, x, {.weights = ones({3}, DType::f64)}); }),
      "binary_cross_entropy_with_logits: logits and weights must have one dtype; got f32 and f64; cast one of them");
}

// ---- kl_div ---------------------------------------------------------------------------------------------------------

TEST(KlDiv, ByHand) {
  const double l = std::log(2.0);
  const Tensor x = f64({{-l, -l}, {-2 * l, -l}}), t = f64({{0.5, 0.5}, {1, 0}});
  expect_near(kl_div(x, t, {.reduction = Reduction::none}), {2, 2}, {0, 0, 2 * l, 0}, 1e-15);
  EXPECT_NEAR(kl_div(x, t, {.reduction = Reduction::sum}).item(), 2 * l, 1e-15);
  EXPECT_NEAR(kl_div(x, t).item(), l / 2, 1e-15);
  expect_near(kl_div(x, log(t), {.log_target = true, .reduction = Reduction::none}), {2, 2}, {0, 0, 2 * l, 0}, 1e-15);
  EXPECT_TRUE(std::isnan(kl_div(f64(-1), f64(-0.5)).item()));
}

TEST(KlDiv, AnImpossibleTargetGivesZeroAtEveryOrder) {
  for (const DType dtype : dtypes) {
    for (const bool log_target : {false, true}) {
      const Tensor p = tensor({-1, -infinity, nan, -2}, dtype);
      const Tensor q = log_target ? tensor({-infinity, -infinity, -infinity, 0}, dtype) : tensor({0, 0, 0, 1}, dtype);
      Tape tape;
      const Tensor x = tape.watch(p), t = tape.watch(q);
      const Tensor loss = kl_div(x, t, {.log_target = log_target, .reduction = Reduction::none});
      expect_exactly(loss.detach(), {4}, {0, 0, 0, 2});
      const Gradients first = tape.backward(sum(loss), {.create_graph = true});
      expect_exactly(first.of(x).detach(), {4}, {0, 0, 0, -1});
      expect_exactly(first.of(t).detach(), {4}, {0, 0, 0, 3});
      const Gradients second = tape.backward(sum(first.of(t) + first.of(x)));
      expect_exactly(second.of(x), {4}, {0, 0, 0, -1});
      // d/dt of log t + 1 − x − 1[x: −t] is 1/t − 1; of eᵗ (t − x) + eᵗ − eᵗ it is eᵗ (t − x + 1).
      expect_exactly(second.of(t), {4}, {0, 0, 0, log_target ? 3.0 : 0.0});
    }
  }
}

TEST(KlDiv, Gradients) {
  const Tensor x = between(15, {2, 3}, -3, -0.1), t = between(16, {2, 3}, 0.5, 2);
  for (const Reduction reduction : reductions) {
    expect_gradients([&](const std::vector<Tensor>& in) { return kl_div(in[0], in[1], {.reduction = reduction}); },
                     {x, t});
    expect_gradients(
        [&](const std::vector<Tensor>& in) {
          return kl_div(in[0], in[1], {.log_target = true, .reduction = reduction});
        },
        {x, x + t - 1.0});
  }
}

TEST(KlDiv, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([&] {
              kl_div(ones({2, 3}), ones({3}));
            }),
            "kl_div: log_probabilities and targets must have one shape; got [2, 3] and [3]; reshape one of them");
  EXPECT_EQ(error_of([&] { kl_div(ones({3}), Tensor()); }),
            "kl_div: targets must hold a value; got an empty handle; assign a tensor to it first");
}

// ---- all of them ----------------------------------------------------------------------------------------------------

TEST(Losses, F32IsCloseToF64) {
  const Tensor x = between(17, {4, 5}, -3, -0.1), t = between(18, {4, 5}, 0.1, 0.9);
  const Tensor narrow_x = cast(x, DType::f32), narrow_t = cast(t, DType::f32);
  const auto close = [](const Tensor& narrow, const Tensor& wide) {
    EXPECT_EQ(narrow.dtype(), DType::f32);
    EXPECT_NEAR(narrow.item() / wide.item(), 1, 1e-6);
  };
  const Tensor targets = ids({0, 4, 2, 1}, {4});
  close(nll_loss(narrow_x, targets), nll_loss(x, targets));
  close(mse_loss(narrow_x, narrow_t), mse_loss(x, t));
  close(binary(narrow_x, narrow_t, Reduction::mean), binary(x, t, Reduction::mean));
  close(kl_div(narrow_x, narrow_t), kl_div(x, t));
}

TEST(Losses, AMeanOverflowsNoEarlierThanItsValue) {
  const Tensor zero = zeros({100}), large = full({100}, 1e19, DType::f32), ids = zeros({100}, DType::i32);
  const auto expect_about = [](const Tensor& got, double want) { EXPECT_NEAR(got.item() / want, 1, 1e-6); };
  expect_about(mse_loss(large, zero), 1e38);
  expect_about(binary_cross_entropy_with_logits(full({100}, 1e37), zero), 1e37);
  const Tensor logits = broadcast_to(tensor({-1e37, 1e37}), Shape{100, 2});
  expect_about(cross_entropy(logits, ids), 2e37);
  expect_about(nll_loss(logits, ids), 1e37);
}

TEST(Losses, WeightsAreFiniteAndNotNegative) {
  const Tensor logits = zeros({1, 2}), target = tensor({0}, DType::i32);
  const auto with = [&](double weight) { return CrossEntropyOptions{.weights = tensor({1, weight})}; };
  EXPECT_EQ(error_of([&] { cross_entropy(logits, target, with(-1)); }),
            "cross_entropy: weights must be finite and not negative; got -1 at [1]");
  EXPECT_EQ(error_of([&] { cross_entropy(logits, target, with(std::nan(""))); }),
            "cross_entropy: weights must be finite and not negative; got nan at [1]");
  EXPECT_EQ(error_of([&] { nll_loss(logits, target, {.weights = with(INFINITY).weights}); }),
            "nll_loss: weights must be finite and not negative; got inf at [1]");
}

TEST(Losses, TheMeanOfNothingIsZeroWithGradientZero) {
  const Tensor empty = zeros({0, 3}, DType::f64);
  const auto of_nothing = [&](const auto& f) {
    const auto [value, gradient] = value_and_grad(empty, f);
    EXPECT_EQ(value.item(), 0);
    expect_exactly(gradient, {0, 3}, {});
  };
  of_nothing([&](const Tensor& x) { return nll_loss(x, ids({}, {0})); });
  of_nothing([&](const Tensor& x) { return mse_loss(x, empty); });
  of_nothing([&](const Tensor& x) { return binary(x, empty, Reduction::mean); });
  of_nothing([&](const Tensor& x) { return kl_div(x, empty); });
}

}  // namespace
}  // namespace capstan::test
