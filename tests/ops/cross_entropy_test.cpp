// Cross-entropy: values, ignored tokens, smoothing, reductions, errors. Gradient checks: samples/embedding_samples.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }
Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

struct Result {
  Tensor loss, gradient;
};
/// The loss and its gradient for a cotangent of `up` (1 for a scalar), by the rule or by the kernel.
Result run(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, bool create_graph,
           const Tensor& up = Tensor()) {
  Tape tape;
  const Tensor x = tape.watch(logits);
  const Tensor loss = cross_entropy(x, targets, options);
  const Gradients g = tape.backward({{loss, up}}, {.create_graph = create_graph});
  return {loss.detach(), g.of(x).detach()};
}

TEST(CrossEntropy, HandValues) {
  EXPECT_NEAR(cross_entropy(tensor({{0, 0}}, DType::f64), ids({1}, {1})).item(), std::log(2.0), 1e-15);
  EXPECT_NEAR(cross_entropy(tensor({0, 0, 0}, DType::f64), ids({1}, {})).item(), std::log(3.0), 1e-15);
}

TEST(CrossEntropy, FarApartLogitsStayFinite) {
  for (const bool create_graph : {false, true}) {
    const Result r = run(tensor({{-431, 279, 427}}, DType::f64), ids({0}, {1}), {}, create_graph);
    EXPECT_EQ(r.loss.item(), 858);
    expect_near(r.gradient, {1, 3}, {-1, 0, 1}, 1e-15);
    EXPECT_NEAR(r.gradient.at({0, 1}) / std::exp(-148.0), 1, 1e-12);
  }
}

TEST(CrossEntropy, NamesRowAndValueOfABadTarget) {
  const Tensor logits = draw(1, {3, 5});
  EXPECT_EQ(error_of([&] {
              cross_entropy(logits, ids({0, 3, -4}, {3}), {.ignore_index = -1});
            }),
            "cross_entropy: targets must be in [0, 5) or the ignored -1; got -4 at [2]");
  EXPECT_EQ(error_of([&] {
              cross_entropy(logits, ids({0, 5, 1}, {3}));
            }),
            "cross_entropy: targets must be in [0, 5); got 5 at [1]");
  EXPECT_EQ(error_of([&] {
              cross_entropy(draw(1, {2, 2, 5}), ids({0, 1, -1, 2}, {2, 2}));
            }),
            "cross_entropy: targets must be in [0, 5); got -1 at [1, 0]");
  EXPECT_TRUE(std::isfinite(cross_entropy(logits, ids({0, 3, -1}, {3}), {.ignore_index = -1}).item()));
}

TEST(CrossEntropy, AnIgnoredRowIsExactlyZero) {
  const Tensor targets = ids({0, 1, 255, 0, 1, 2}, {6});
  std::vector<double> values = draw(2, {6, 3}).to_doubles();
  for (std::size_t i = 6; i < 9; ++i) values[i] = std::numeric_limits<double>::quiet_NaN();
  const Tensor logits = tensor(values, Shape{6, 3});
  for (const bool create_graph : {false, true}) {
    const CrossEntropyOptions options{.ignore_index = 255, .reduction = Reduction::none};
    const Result r = run(logits, targets, options, create_graph, draw(3, {6}));
    EXPECT_EQ(r.loss.at({2}), 0);
    expect_exactly(slice(r.gradient, 0, 2, 3), {1, 3}, {0, 0, 0});
    for (const double value : r.gradient.to_doubles()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(CrossEntropy, WithAllTokensIgnoredNothingHappens) {
  for (const bool create_graph : {false, true}) {
    const Result r = run(draw(4, {3, 4}), ids({-1, -1, -1}, {3}), {.ignore_index = -1}, create_graph);
    EXPECT_EQ(r.loss.item(), 0);
    expect_exactly(r.gradient, {3, 4}, std::vector<double>(12, 0.0));

    Tape tape;
    const Tensor x = tape.watch(draw(5, {3, 2})), weight = tape.watch(draw(6, {2, 4}));
    const Tensor loss = cross_entropy(matmul(x, weight), ids({-1, -1, -1}, {3}), {.ignore_index = -1});
    const Gradients g = tape.backward(loss, {.create_graph = create_graph});
    expect_exactly(g.of(weight).detach(), {2, 4}, std::vector<double>(8, 0.0));
  }
  EXPECT_EQ(cross_entropy(zeros({0, 4}), ids({}, {0})).item(), 0);
}

TEST(CrossEntropy, IgnoredRowsEqualRemovedOnes) {
  const Tensor logits = tensor({{1, 2}, {3, 0.4}}, DType::f64);
  for (const bool create_graph : {false, true}) {
    const Result with = run(logits, ids({-100, 1}, {2}), {.ignore_index = -100, .label_smoothing = 0.1}, create_graph);
    const Result without = run(slice(logits, 0, 1, 2), ids({1}, {1}), {.label_smoothing = 0.1}, create_graph);
    EXPECT_NEAR(with.loss.item(), 2.5416447, 5e-8);
    EXPECT_EQ(with.loss.item(), without.loss.item());
    expect_exactly(slice(with.gradient, 0, 1, 2), {1, 2}, without.gradient.to_doubles());
    expect_exactly(slice(with.gradient, 0, 0, 1), {1, 2}, {0, 0});
  }
}

TEST(CrossEntropy, AnyIdMayBeTheIgnoredOne) {
  const Tensor logits = draw(6, {2, 3});
  const double want = cross_entropy(slice(logits, 0, 1, 2), ids({1}, {1})).item();
  for (const std::int32_t id : {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()})
    EXPECT_EQ(cross_entropy(logits, ids({id, 1}, {2}), {.ignore_index = id}).item(), want) << id;
}

TEST(CrossEntropy, ReadsStretchedCotangents) {
  const Tensor logits = draw(7, {64, 2, 3});
  std::vector<std::int32_t> list;
  for (int i = 0; i < 128; ++i) list.push_back(i % 3);
  const Tensor targets = ids(list, {64, 2});
  const CrossEntropyOptions none{.reduction = Reduction::none};
  const Result dense = run(logits, targets, none, false, ones({64, 2}, DType::f64));
  const Result summed = run(logits, targets, {.reduction = Reduction::sum}, false);
  expect_exactly(summed.gradient, {64, 2, 3}, dense.gradient.to_doubles());
  EXPECT_NEAR(summed.loss.item(), sum(dense.loss).item(), 1e-13);
}

TEST(CrossEntropy, TheMeanCountsKeptTokens) {
  const Tensor logits = draw(8, {4, 3}), targets = ids({-1, 2, -1, 0}, {4});
  const Tensor each = cross_entropy(logits, targets, {.ignore_index = -1, .reduction = Reduction::none});
  const Tensor mean_loss = cross_entropy(logits, targets, {.ignore_index = -1});
  EXPECT_NEAR(mean_loss.item(), sum(each).item() / 2, 1e-15);
}

TEST(CrossEntropy, SmoothingMixesInTheUniformDistribution) {
  const Tensor logits = draw(9, {1, 4});
  const std::vector<double> x = logits.to_doubles();
  double total = 0, average = 0;
  for (const double value : x) total += std::exp(value), average += value / 4;
  const double expected = std::log(total) - 0.7 * x[2] - 0.3 * average;
  EXPECT_NEAR(cross_entropy(logits, ids({2}, {1}), {.label_smoothing = 0.3}).item(), expected, 1e-14);
}

TEST(CrossEntropy, ClassWeightsByHand) {
  // Equal logits: every class costs log 4.
  const Tensor logits = zeros({3, 4}, DType::f64), weights = tensor({1, 2, 0, 0.5}, DType::f64);
  const Tensor targets = ids({1, 3, -1}, {3});
  const double l = std::log(4.0);
  const auto loss = [&](double smoothing, Reduction reduction) {
    return cross_entropy(
        logits, targets,
        {.ignore_index = -1, .label_smoothing = smoothing, .weights = weights, .reduction = reduction});
  };
  expect_near(loss(0, Reduction::none), {3}, {2 * l, 0.5 * l, 0}, 1e-15);
  EXPECT_NEAR(loss(0, Reduction::mean).item(), l, 1e-15);
  // w_t (1 − s) + s Σ w / V, still divided by Σ w_t.
  expect_near(loss(0.1, Reduction::none), {3}, {(1.8 + 0.0875) * l, (0.45 + 0.0875) * l, 0}, 1e-15);
  EXPECT_NEAR(loss(0.1, Reduction::mean).item(), (2.25 + 0.175) / 2.5 * l, 1e-15);
}

TEST(CrossEntropy, WeightsOfOneChangeNothing) {
  const Tensor logits = draw(10, {4, 5}), targets = ids({0, 4, 2, 2}, {4});
  for (const bool create_graph : {false, true}) {
    const Result plain = run(logits, targets, {.label_smoothing = 0.1}, create_graph);
    const Result weighted =
        run(logits, targets, {.label_smoothing = 0.1, .weights = ones({5}, DType::f64)}, create_graph);
    EXPECT_NEAR(weighted.loss.item(), plain.loss.item(), 1e-15);
    expect_near(weighted.gradient, {4, 5}, plain.gradient.to_doubles(), 1e-15);
  }
}

TEST(CrossEntropy, WithOnlyWeightsOfZeroTheMeanIsZero) {
  for (const bool create_graph : {false, true}) {
    const Result r = run(draw(11, {2, 3}), ids({1, 1}, {2}), {.weights = tensor({1, 0, 2}, DType::f64)}, create_graph);
    EXPECT_EQ(r.loss.item(), 0);
    expect_exactly(r.gradient, {2, 3}, std::vector<double>(6, 0.0));
  }
}

TEST(CrossEntropy, WeightedIgnoredRowsEqualRemovedOnes) {
  const Tensor logits = draw(12, {3, 4}), weights = tensor({0.5, 2, 1, 3}, DType::f64);
  for (const bool create_graph : {false, true}) {
    const Result with = run(logits, ids({2, -1, 3}, {3}),
                            {.ignore_index = -1, .label_smoothing = 0.1, .weights = weights}, create_graph);
    const Result without =
        run(slice(logits, 0, 0, 3, 2), ids({2, 3}, {2}), {.label_smoothing = 0.1, .weights = weights}, create_graph);
    EXPECT_EQ(with.loss.item(), without.loss.item());
    expect_exactly(slice(with.gradient, 0, 0, 3, 2), {2, 4}, without.gradient.to_doubles());
    expect_exactly(slice(with.gradient, 0, 1, 2), {1, 4}, {0, 0, 0, 0});
  }
}

TEST(CrossEntropy, NamesWeightsThatDoNotFit) {
  const Tensor logits = zeros({2, 3}), targets = ids({0, 1}, {2});
  EXPECT_EQ(error_of([&] { cross_entropy(logits, targets, {.weights = ones({2})}); }),
            "cross_entropy: weights must be [V] = [3]; got [2]");
  EXPECT_EQ(error_of([&] { cross_entropy(logits, targets, {.weights = ones({3}, DType::f64)}); }),
            "cross_entropy: logits and weights must have one dtype; got f32 and f64; cast one of them");
  Tape tape;
  const Tensor recorded = tape.watch(ones({3}));
  EXPECT_EQ(error_of([&] { cross_entropy(logits, targets, {.weights = recorded}); }),
            "cross_entropy: weights must be constants; got a recorded tensor; detach() it first");
}

TEST(CrossEntropy, NamesWhatDoesNotFit) {
  const Tensor logits = zeros({2, 3}), targets = ids({0, 1}, {2});
  EXPECT_EQ(error_of([&] { cross_entropy(logits, ids({0}, {1})); }),
            "cross_entropy: logits must be [targets..., V]; got logits [2, 3] and targets [1]");
  EXPECT_EQ(error_of([&] { cross_entropy(zeros({}), ids({0}, {})); }),
            "cross_entropy: logits must be [targets..., V]; got logits [] and targets []");
  EXPECT_EQ(error_of([&] {
              cross_entropy(zeros({2, 0}), targets);
            }),
            "cross_entropy: logits must have at least one class; got [2, 0]");
  EXPECT_EQ(error_of([&] { cross_entropy(logits, zeros({2})); }),
            "cross_entropy: targets must be i32; got f32; cast it first");
  EXPECT_EQ(error_of([&] { cross_entropy(targets, targets); }),
            "cross_entropy: logits must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { cross_entropy(logits, targets, {.label_smoothing = 1.5}); }),
            "cross_entropy: label_smoothing must be in [0, 1]; got 1.5");
}

TEST(CrossEntropy, AnIgnoreIndexThatNoTargetCanHaveIgnoresNothingAtAnyOrder) {
  const Tensor logits = tensor({{1, 2, 4}, {0, 1, 3}}, DType::f64), targets = tensor({2, 0}, DType::i32);
  const auto f = [&](const std::vector<Tensor>& in) {
    return std::vector{cross_entropy(in[0], targets, {.ignore_index = Index{1} << 40, .label_smoothing = 0.1})};
  };
  const GradcheckReport report = gradcheck(f, {logits});
  EXPECT_TRUE(report.passed) << report.failure;
}

TEST(CrossEntropy, WithSmoothingOneTheTargetDoesNotCountByItself) {
  const Tensor logits = tensor({{-std::numeric_limits<double>::infinity(), 0}}, DType::f64);
  EXPECT_EQ(cross_entropy(logits, tensor({0}, DType::i32), {.label_smoothing = 1}).item(),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace capstan::test
