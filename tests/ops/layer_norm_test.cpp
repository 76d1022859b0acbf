// Layer normalisation: values, rows far from zero, constant rows, optional parameters, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include <cmath>

#include "support/expect.h"

namespace capstan::test {
namespace {

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

Tensor gradient(const Tensor& x, const Tensor& up, bool create_graph) {
  Tape tape;
  const Tensor watched = tape.watch(x);
  return tape.backward(layer_norm(watched), up, {.create_graph = create_graph}).of(watched).detach();
}

TEST(LayerNorm, HandValues) {
  const Tensor x = tensor({1, 2, 3, 4}, DType::f64);
  const double r = 1 / std::sqrt(1.25 + 1e-5);
  const LayerNormOutputs outputs = layer_norm_outputs(x);
  expect_near(outputs.y, {4}, {-1.5 * r, -0.5 * r, 0.5 * r, 1.5 * r}, 1e-15);
  expect_near(outputs.mean, {}, {2.5}, 1e-15);
  expect_near(outputs.rstd, {}, {r}, 1e-15);
  const Tensor weight = tensor({1, 2, 1, 0}, DType::f64), bias = tensor({0, 0, 1, 5}, DType::f64);
  expect_near(layer_norm(x, weight, bias), {4}, {-1.5 * r, -r, 0.5 * r + 1, 5}, 1e-15);
  expect_near(layer_norm(x, weight), {4}, {-1.5 * r, -r, 0.5 * r, 0}, 1e-15);
  expect_near(layer_norm(x, Tensor(), bias), {4}, {-1.5 * r, -0.5 * r, 0.5 * r + 1, 1.5 * r + 5}, 1e-15);
}

TEST(LayerNorm, RowsFarFromZeroLoseNothing) {  // CASES 15
  const Tensor x = draw(1, {16, 256}, DType::f32) + 2000.0;
  const Tensor y = layer_norm(x);
  const Tensor square = mean(y * y, -1), middle = mean(y, -1);
  for (const double value : square.to_doubles()) EXPECT_NEAR(value, 1, 1e-4);
  for (const double value : middle.to_doubles()) EXPECT_NEAR(value, 0, 1e-6);
}

TEST(LayerNorm, ConstantRowsHaveFiniteGradients) {  // CASES 16
  for (const bool create_graph : {false, true}) {
    for (const double value : {0.0, 3.25}) {
      const Tensor g = gradient(full({1, 4}, value, DType::f64), tensor({{1, 0, 0, 0}}, DType::f64), create_graph);
      const double r = 1 / std::sqrt(1e-5);
      expect_near(g, {1, 4}, {0.75 * r, -0.25 * r, -0.25 * r, -0.25 * r}, 1e-12);
    }
    const Tensor g = gradient(tensor({1, 2, 3, 4}, DType::f64), tensor({1, 0, 0, 0}, DType::f64), create_graph);
    expect_near(g, {4}, {0.2683303, -0.3577684, -0.0894434, 0.1788815}, 5e-8);
  }
}

TEST(LayerNorm, BiasWithoutWeightPassesSecondOrder) {  // CASES 17
  const auto f = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{layer_norm(in[0], Tensor(), in[1])}; };
  const GradcheckReport report = gradcheck(f, {draw(2, {3, 5}), draw(3, {5})});
  EXPECT_TRUE(report.passed) << report.failure;
}

TEST(LayerNorm, StatisticsCanBeDifferentiated) {
  const Tensor x = draw(4, {2, 5}), weight = draw(5, {5});
  const auto f = [](const std::vector<Tensor>& in) {
    const LayerNormOutputs outputs = layer_norm_outputs(in[0], in[1]);
    return std::vector<Tensor>{sum(outputs.mean * outputs.rstd) + mean(outputs.y)};
  };
  const GradcheckReport report = gradcheck(f, {x, weight});
  EXPECT_TRUE(report.passed) << report.failure;
}

TEST(LayerNorm, TheBiasGradientKeepsNothing) {
  Tape tape;
  const Tensor bias = tape.watch(draw(6, {5}));
  layer_norm(draw(7, {3, 5}), Tensor(), bias);
  EXPECT_EQ(tape.saved_bytes(), 0);
}

TEST(LayerNorm, NoRowsPassThrough) {
  Tape tape;
  const Tensor weight = tape.watch(ones({3}));
  const Tensor y = layer_norm(zeros({0, 3}), weight);
  expect_exactly(tape.backward(y, zeros({0, 3})).of(weight), {3}, {0, 0, 0});
}

/// Values and gradients of sum · up + y · down, by one op or by two.
std::vector<Tensor> residual(bool one_op, DType dtype, bool strided_up) {
  const auto make = [&](std::uint64_t seed, const Shape& shape) { return draw(seed, shape, dtype); };
  Tape tape;
  const Tensor x = tape.watch(make(1, {5, 37})), r = tape.watch(make(2, {5, 37}));
  const Tensor weight = tape.watch(make(3, {37})), bias = tape.watch(make(4, {37}));
  Tensor sum, y;
  if (one_op) {
    AddLayerNormOutputs outputs = add_layer_norm(x, r, weight, bias);
    sum = outputs.sum, y = outputs.y;
  } else {
    sum = x + r, y = layer_norm(sum, weight, bias);
  }
  const Tensor up = strided_up ? transpose(make(5, {37, 5})) : make(5, {5, 37});
  const Gradients g = tape.backward({{sum, up}, {y, make(6, {5, 37})}});
  return {sum.detach(), y.detach(), g.of(x), g.of(r), g.of(weight), g.of(bias)};
}

TEST(AddLayerNorm, HasTheBytesOfTheTwoOps) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const bool strided : {false, true}) {
      const std::vector<Tensor> one = residual(true, dtype, strided), two = residual(false, dtype, strided);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].to_doubles(), two[i].to_doubles()) << i;
    }
}

TEST(AddLayerNorm, HandValues) {
  const AddLayerNormOutputs outputs = add_layer_norm(tensor({0, 1}, DType::f64), tensor({1, 2}, DType::f64));
  const double y = 1 / std::sqrt(1 + 1e-5);
  expect_exactly(outputs.sum, {2}, {1, 3});
  expect_near(outputs.y, {2}, {-y, y}, 1e-15);
  expect_near(outputs.mean, {}, {2}, 1e-15);
  expect_near(outputs.rstd, {}, {y}, 1e-15);
}

// The sum stands for both: neither x nor r is kept beside it.
TEST(AddLayerNorm, KeepsTheSumAndTheStatistics) {
  Tape tape;
  const Tensor x = tape.watch(draw(1, {4, 8}));
  const AddLayerNormOutputs outputs = add_layer_norm(x, draw(2, {4, 8}));
  EXPECT_EQ(tape.saved_bytes(), (4 * 8 + 4 + 4) * 8);
}

// A cotangent that somebody else holds is copied, not added to.
TEST(AddLayerNorm, LeavesTheCallersCotangentAlone) {
  Tape tape;
  const Tensor x = tape.watch(draw(1, {2, 4})), up = draw(2, {2, 4});
  const AddLayerNormOutputs outputs = add_layer_norm(x, draw(3, {2, 4}));
  const std::vector<double> before = up.to_doubles();
  tape.backward({{outputs.sum, up}, {outputs.y, up}});
  EXPECT_EQ(up.to_doubles(), before);
}

TEST(AddLayerNorm, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& x, const Tensor& r, const Tensor& w = Tensor()) {
    return error_of([&] { add_layer_norm(x, r, w); });
  };
  EXPECT_EQ(error(zeros({2, 3}), zeros({3})), "add_layer_norm: x and r must have one shape; got x [2, 3] and r [3]");
  EXPECT_EQ(error(zeros({2, 3}), zeros({2, 3}, DType::f64)),
            "add_layer_norm: x and r must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error(zeros({2, 3}), zeros({2, 3}), ones({2})), "add_layer_norm: weight must be [C] = [3]; got [2]");
  EXPECT_EQ(error(zeros({}), zeros({})), "add_layer_norm: x must have a last axis of at least one element; got []");
}

TEST(LayerNorm, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& x, const Tensor& w = Tensor(), const Tensor& b = Tensor(), double eps = 1e-5) {
    return error_of([&] { layer_norm(x, w, b, eps); });
  };
  EXPECT_EQ(error(zeros({})), "layer_norm: x must have a last axis of at least one element; got []");
  EXPECT_EQ(error(zeros({2, 0})), "layer_norm: x must have a last axis of at least one element; got [2, 0]");
  EXPECT_EQ(error(zeros({2, 3}), ones({2})), "layer_norm: weight must be [C] = [3]; got [2]");
  EXPECT_EQ(error(zeros({2, 3}), Tensor(), ones({1, 3})), "layer_norm: bias must be [C] = [3]; got [1, 3]");
  EXPECT_EQ(error(zeros({2, 3}), ones({3}, DType::f64)),
            "layer_norm: x and weight must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error(zeros({2, 3}), Tensor(), Tensor(), -1), "layer_norm: eps must not be negative; got -1");
  EXPECT_EQ(error(zeros({2}, DType::i32)), "layer_norm: x must be f32 or f64; got i32; cast it first");
}

}  // namespace
}  // namespace capstan::test
