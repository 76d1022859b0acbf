// RMS normalisation: values, rows of zeros, the range of f32, what is kept, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/rms_norm.h>

#include <cmath>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor gradient(const Tensor& x, const Tensor& up, bool create_graph) {
  Tape tape;
  const Tensor watched = tape.watch(x);
  return tape.backward(rms_norm(watched), up, {.create_graph = create_graph}).of(watched).detach();
}

TEST(RmsNorm, HandValues) {
  const Tensor x = tensor({1, 2, 3, 4}, DType::f64);
  const double r = 1 / std::sqrt(7.5 + 1e-5);
  const RmsNormOutputs outputs = rms_norm_outputs(x);
  expect_near(outputs.y, {4}, {r, 2 * r, 3 * r, 4 * r}, 1e-15);
  expect_near(outputs.y, {4}, {0.3651482, 0.7302964, 1.0954446, 1.4605928}, 5e-7);
  expect_near(outputs.rstd, {}, {r}, 1e-15);
  expect_near(rms_norm(x, tensor({1, 2, 1, 0}, DType::f64)), {4}, {r, 4 * r, 3 * r, 0}, 1e-15);
  expect_near(rms_norm(x, Tensor(), 1), {4},
              {1 / std::sqrt(8.5), 2 / std::sqrt(8.5), 3 / std::sqrt(8.5), 4 / std::sqrt(8.5)}, 1e-15);
}

TEST(RmsNorm, MeanIsNotTakenAway) {
  const Tensor x = normal(Key{.seed = 1}, {16, 256}) + 2000.0;
  for (const double value : rms_norm(x).to_doubles()) EXPECT_NEAR(value, 1, 3e-3);
}

TEST(RmsNorm, MeanSquareOfEveryRowIsOne) {
  const Tensor y = rms_norm(normal(Key{.seed = 2}, {9, 300}, 0, 50, DType::f64));
  for (const double value : mean(y * y, -1).to_doubles()) EXPECT_NEAR(value, 1, 1e-7);
}

TEST(RmsNorm, RowsOfZerosHaveFiniteGradients) {
  for (const bool create_graph : {false, true}) {
    const Tensor g = gradient(zeros({1, 4}, DType::f64), tensor({{1, -2, 0, 0}}, DType::f64), create_graph);
    const double r = 1 / std::sqrt(1e-5);
    expect_near(g, {1, 4}, {r, -2 * r, 0, 0}, 1e-12);
  }
}

TEST(RmsNorm, GradientByHand) {
  // x = (3, 4), eps 0: r = 1/√12.5, x̂ = (3, 4) r, up = (1, 0): dx = r (1 − 9 r²/2, −12 r²/2).
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor x = tape.watch(tensor({3, 4}, DType::f64));
    const Tensor g =
        tape.backward(rms_norm(x, Tensor(), 0), tensor({1, 0}, DType::f64), {.create_graph = create_graph}).of(x);
    const double r = 1 / std::sqrt(12.5);
    expect_near(g.detach(), {2}, {0.64 * r, -0.48 * r}, 1e-15);
  }
}

TEST(RmsNorm, RangeOfF32IsAsDocumented) {
  expect_near(rms_norm(full({4}, 1e19)), {4}, {0, 0, 0, 0}, 0);  // 4 · 1e38 is beyond f32
  expect_near(rms_norm(full({4}, -8e18)), {4}, {-1, -1, -1, -1}, 1e-6);
  expect_near(gradient(full({4}, 1e19), ones({4}), false), {4}, {0, 0, 0, 0}, 0);
  expect_near(rms_norm(full({4}, 1e19, DType::f64)), {4}, {1, 1, 1, 1}, 1e-15);
}

TEST(RmsNorm, NoRowsPassThrough) {
  Tape tape;
  const Tensor weight = tape.watch(ones({3}));
  const Tensor y = rms_norm(zeros({0, 3}), weight);
  expect_exactly(tape.backward(y, zeros({0, 3})).of(weight), {3}, {0, 0, 0});
}

TEST(RmsNorm, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& x, const Tensor& w = Tensor(), double eps = 1e-5) {
    return error_of([&] { rms_norm(x, w, eps); });
  };
  EXPECT_EQ(error(zeros({})), "rms_norm: x must have a last axis of at least one element; got []");
  EXPECT_EQ(error(zeros({2, 0})), "rms_norm: x must have a last axis of at least one element; got [2, 0]");
  EXPECT_EQ(error(zeros({2, 3}), ones({2})), "rms_norm: weight must be [C] = [3]; got [2]");
  EXPECT_EQ(error(zeros({2, 3}), ones({3}, DType::f64)),
            "rms_norm: x and weight must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error(zeros({2, 3}), Tensor(), -1), "rms_norm: eps must not be negative; got -1");
  EXPECT_EQ(error(zeros({2}, DType::i32)), "rms_norm: x must be f32 or f64; got i32; cast it first");
}

}  // namespace
}  // namespace capstan::test
