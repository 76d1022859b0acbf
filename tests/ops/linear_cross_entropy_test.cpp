// The head and loss as one op: equality with the composed form, chunks, memory, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/pool.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_cross_entropy.h>

#include <cmath>
#include <limits>

#include "support/expect.h"
#include "support/upstream.h"

namespace capstan::test {
namespace {

Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }
Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

TEST(LinearCrossEntropy, HandValues) {
  const Tensor flat = zeros({3, 2}, DType::f64);
  EXPECT_NEAR(linear_cross_entropy(draw(1, {4, 2}), flat, ids({0, 1, 2, 0}, {4})).item(), std::log(3.0), 1e-15);
  const LinearCrossEntropyOutputs all =
      linear_cross_entropy_outputs(tensor({{1, 2}}, DType::f64), zeros({2, 2}, DType::f64), ids({1}, {1}));
  EXPECT_NEAR(all.loss.item(), std::log(2.0), 1e-15);
  expect_near(all.dx, {1, 2}, {0, 0}, 1e-15);
  expect_near(all.dtable, {2, 2}, {0.5, 1, -0.5, -1}, 1e-15);
}

struct Result {
  double loss;
  std::vector<double> dx, dtable;
};
template <class F>
Result run(const Tensor& x, const Tensor& table, F f, double factor = 1) {
  Tape tape;
  const Tensor watched_x = tape.watch(x), watched_table = tape.watch(table);
  const Tensor loss = scale(f(watched_x, watched_table), factor);
  const Gradients g = tape.backward(loss);
  return {loss.item(), g.of(watched_x).to_doubles(), g.of(watched_table).to_doubles()};
}

/// `factor` times the loss and its gradients, by one op and by two.
void expect_as_composed(const Tensor& x, const Tensor& table, const Tensor& targets, const CrossEntropyOptions& options,
                        double tolerance, double factor = 1) {
  const Result fused = run(
      x, table, [&](const Tensor& a, const Tensor& b) { return linear_cross_entropy(a, b, targets, options); }, factor);
  const Result composed = run(
      x, table, [&](const Tensor& a, const Tensor& b) { return cross_entropy(linear(a, b), targets, options); },
      factor);
  EXPECT_NEAR(fused.loss, composed.loss, tolerance);
  ASSERT_EQ(fused.dx.size(), composed.dx.size());
  for (std::size_t i = 0; i < fused.dx.size(); ++i) ASSERT_NEAR(fused.dx[i], composed.dx[i], tolerance) << i;
  ASSERT_EQ(fused.dtable.size(), composed.dtable.size());
  for (std::size_t i = 0; i < fused.dtable.size(); ++i)
    ASSERT_NEAR(fused.dtable[i], composed.dtable[i], tolerance) << i;
  EXPECT_NEAR(linear_cross_entropy(x, table, targets, options).item() * factor, composed.loss, tolerance) << "no tape";
}

TEST(LinearCrossEntropy, EqualsTheComposedForm) {
  const Tensor x = draw(2, {2, 3, 5}), table = draw(3, {7, 5}), targets = ids({0, 6, -1, 3, 3, 1}, {2, 3});
  const CrossEntropyOptions ignoring{.ignore_index = -1};
  expect_as_composed(x, table, targets, ignoring, 1e-14);
  expect_as_composed(x, table, targets, ignoring, 1e-14, -3);
  expect_as_composed(x, table, targets, {.ignore_index = -1, .reduction = Reduction::sum}, 1e-13);
  expect_as_composed(
      x, table, targets,
      {.ignore_index = -1, .label_smoothing = 0.3, .weights = uniform(Key{.seed = 4}, {7}, 0, 1, DType::f64)}, 1e-14);
  expect_as_composed(x, table, full({2, 3}, -1, DType::i32), ignoring, 0);
  expect_as_composed(draw(5, {0, 5}), table, ids({}, {0}), {}, 0);
}

TEST(LinearCrossEntropy, OneClassHasNoGradient) {
  const Result r = run(tensor({{1e4}, {2e4}, {-1e4}}), tensor({{2}}),
                       [](const Tensor& a, const Tensor& b) { return linear_cross_entropy(a, b, ids({0, 0, 0}, {3})); });
  EXPECT_EQ(r.dx, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(r.dtable, std::vector<double>{0});
}

/// Logits of 100 MB, in f32: more than one chunk.
constexpr Index many_rows = 520, many_classes = 50'000;

TEST(LinearCrossEntropy, ChunksOfRowsChangeNothing) {
  std::vector<std::int32_t> list;
  for (Index i = 0; i < many_rows; ++i) list.push_back(static_cast<std::int32_t>(i * 97 % many_classes));
  list[519] = -1;
  expect_as_composed(draw(6, {many_rows, 3}, DType::f32), draw(7, {many_classes, 3}, DType::f32),
                     ids(list, {many_rows}), {.ignore_index = -1}, 2e-6);
}

TEST(LinearCrossEntropy, NeverHoldsAllLogits) {
  const Tensor x = draw(8, {2 * many_rows, 1}, DType::f32), table = draw(9, {many_classes, 1}, DType::f32);
  const Tensor targets = zeros({2 * many_rows}, DType::i32);
  pool_trim();
  test::CountingUpstream upstream;
  run(x, table, [&](const Tensor& a, const Tensor& b) { return linear_cross_entropy(a, b, targets); });
  const std::size_t logits = static_cast<std::size_t>(2 * many_rows * many_classes) * sizeof(float);
  EXPECT_GT(upstream.peak_bytes(), 0u);
  EXPECT_LE(upstream.peak_bytes(), logits / 2);
}

TEST(LinearCrossEntropy, NoGradientIsMadeOfAConstant) {
  Tape tape;
  const Tensor table = draw(10, {4, 3}), x = draw(11, {2, 3});
  linear_cross_entropy(tape.watch(x), table, ids({1, 2}, {2}));
  // x, table and targets, and dx: no gradient of the table.
  EXPECT_EQ(tape.saved_bytes(), Index{(6 + 12 + 6) * 8 + 2 * 4});
}

TEST(LinearCrossEntropy, AnIgnoredRowReachesNothingBeItNaN) {
  const Tensor x = tensor({{1, 2}, {std::numeric_limits<double>::quiet_NaN(), 0}}, DType::f64);
  const Result r = run(x, draw(12, {3, 2}), [](const Tensor& a, const Tensor& b) {
    return linear_cross_entropy(a, b, ids({2, -1}, {2}), {.ignore_index = -1});
  });
  EXPECT_TRUE(std::isfinite(r.loss));
  EXPECT_EQ(r.dx[2], 0);
  EXPECT_EQ(r.dx[3], 0);
}

TEST(LinearCrossEntropy, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& x, const Tensor& table, const Tensor& targets,
                        const CrossEntropyOptions& options = {}) {
    return error_of([&] { linear_cross_entropy(x, table, targets, options); });
  };
  const Tensor x = zeros({2, 3}), table = zeros({4, 3}), targets = zeros({2}, DType::i32);
  EXPECT_EQ(error(x, zeros({4, 5}), targets),
            "linear_cross_entropy: x's last axis must be the table's; got x [2, 3] and table [4, 5] [V, C]");
  EXPECT_EQ(error(x, zeros({4}), targets),
            "linear_cross_entropy: table must be [V, C] with at least one class; got [4]");
  EXPECT_EQ(error(x, zeros({0, 3}), targets),
            "linear_cross_entropy: table must be [V, C] with at least one class; got [0, 3]");
  EXPECT_EQ(error(x, table, zeros({3}, DType::i32)),
            "linear_cross_entropy: x must be [targets..., C]; got x [2, 3] and targets [3]");
  EXPECT_EQ(error(x, table, ids({0, 4}, {2})), "linear_cross_entropy: targets must be in [0, 4); got 4 at [1]");
  EXPECT_EQ(error(x, table, targets, {.label_smoothing = 2}),
            "linear_cross_entropy: label_smoothing must be in [0, 1]; got 2");
  EXPECT_EQ(error(x, table, targets, {.weights = zeros({3})}),
            "linear_cross_entropy: weights must be [V] = [4]; got [3]");
  EXPECT_EQ(
      error(x, table, targets, {.reduction = Reduction::none}),
      "linear_cross_entropy: reduction must be mean or sum; got none; use cross_entropy(linear(x, table), targets)");
}

}  // namespace
}  // namespace capstan::test
