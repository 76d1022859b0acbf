// Tests of the small layers: linear.h, embedding.h, layer_norm.h, rms_norm.h, mlp.h.
#include <capstan/nn/nn.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/elementwise.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::nn {
namespace {

using test::error_of;
using test::expect_exactly;
using test::expect_near;

Tensor draw(std::uint64_t stream, const Shape& shape) { return uniform(Key{7, stream}, shape, -1, 1, DType::f64); }

/// The gradient check of module(x).
template <class Module>
GradcheckReport check(const Module& module, const Tensor& x) {
  return gradcheck_module(
      module, {x}, [](const Module& m, const std::vector<Tensor>& in) -> std::vector<Tensor> { return {m(in[0])}; });
}

/// Shapes of module(x), the dtype being f32.
template <class Module>
std::string shape_of(const Module& module, const Shape& x) {
  return to_string(module(ones(x)).shape());
}

double deviation_of(const Tensor& x) {
  double sum = 0;
  for (const double element : x.to_doubles()) sum += element * element;
  return std::sqrt(sum / static_cast<double>(x.elements()));
}

// ---- Linear ---------------------------------------------------------------------------------------------------------

TEST(Linear, HandValues) {
  Init init;
  Linear linear(init, {.in = 2, .out = 3});
  load_state(linear, {{"weight", tensor({{1, 2}, {3, 4}, {5, 6}})}, {"bias", tensor({10, 20, 30})}});
  expect_exactly(linear(tensor({1, 1})), {3}, {13, 27, 41});
  expect_exactly(linear(tensor({{1, 0}, {0, 1}})), {2, 3}, {11, 23, 35, 12, 24, 36});
  Linear without(init, {.in = 2, .out = 3, .bias = false});
  EXPECT_FALSE(without.bias.has_value());
  load_state(without, {{"weight", tensor({{1, 2}, {3, 4}, {5, 6}})}});
  expect_exactly(without(tensor({1, 1})), {3}, {3, 7, 11});
}

TEST(Linear, Shapes) {
  Init init;
  const Linear linear(init, {.in = 4, .out = 3});
  EXPECT_EQ(shape_of(linear, {4}), "[3]");
  EXPECT_EQ(shape_of(linear, {2, 5, 4}), "[2, 5, 3]");
  EXPECT_EQ(shape_of(linear, {0, 4}), "[0, 3]");
}

TEST(Linear, Starts) {
  Init init{.seed = 2};
  const Linear uniformly(init, {.in = 16, .out = 50});
  for (const Tensor& x : {uniformly.weight.value(), uniformly.bias->value()})
    for (const double element : x.to_doubles()) EXPECT_LE(std::abs(element), 0.25);
  EXPECT_NEAR(deviation_of(uniformly.weight), 0.25 / std::sqrt(3), 0.01);
  EXPECT_GT(deviation_of(*uniformly.bias), 0.1);
  const Linear normally(init, {.in = 16, .out = 50, .deviation = 0.02});
  EXPECT_NEAR(deviation_of(normally.weight), 0.02, 0.002);
  EXPECT_EQ(deviation_of(*normally.bias), 0);
}

TEST(Linear, Gradients) {
  Init init{.seed = 3, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    const Linear linear(init, {.in = 3, .out = 2, .bias = bias});
    for (const Shape& shape : {Shape{2, 2, 3}, Shape{3}}) {
      const GradcheckReport report = check(linear, draw(1, shape));
      EXPECT_TRUE(report) << report.failure;
    }
  }
}

TEST(Linear, Errors) {
  Init init;
  EXPECT_EQ(error_of([&] { Linear(init, {.in = 0, .out = 3}); }),
            "Linear: in and out must be positive; got in 0 and out 3");
  EXPECT_EQ(error_of([&] { Linear(init, {.in = 2, .out = -1, .deviation = 1}); }),
            "Linear: in and out must be positive; got in 2 and out -1");
  EXPECT_EQ(init.made, 0);
  const Linear linear(init, {.in = 2, .out = 3});
  EXPECT_EQ(error_of([&] { linear(tensor(1)); }), "Linear: the last axis of x must be 2; got x []");
  EXPECT_EQ(error_of([&] { linear(ones({2, 3})); }), "Linear: the last axis of x must be 2; got x [2, 3]");
  EXPECT_EQ(error_of([&] { linear(Tensor()); }),
            "Linear: x must hold a value; got an empty handle; assign a tensor to it first");
  Mlp named(init, {.width = 2, .hidden = 3});
  name_parameters(named);
  EXPECT_EQ(error_of([&] {
              named(ones({2, 2}, DType::f64));
            }),
            "Linear up: x must be f32 like the weight; got f64; cast it, or make the module with Init::dtype");
}

// ---- Embedding ------------------------------------------------------------------------------------------------------

TEST(Embedding, PicksRows) {
  Init init;
  Embedding embedding(init, {.rows = 3, .width = 2});
  load_state(embedding, {{"table", tensor({{1, 2}, {3, 4}, {5, 6}})}});
  expect_exactly(embedding(tensor({2, 0, 2}, DType::i32)), {3, 2}, {5, 6, 1, 2, 5, 6});
  EXPECT_EQ(to_string(embedding(zeros({2, 4}, DType::i32)).shape()), "[2, 4, 2]");
  EXPECT_EQ(to_string(embedding(zeros({0, 4}, DType::i32)).shape()), "[0, 4, 2]");
}

TEST(Embedding, PaddingRowIsUsedAndNotTrained) {  // CASES 19
  Init init;
  Embedding embedding(init, {.rows = 3, .width = 2, .padding_id = 2});
  load_state(embedding, {{"table", tensor({{1, 2}, {3, 4}, {5, 6}})}});
  const auto [value, gradient] = value_and_grad(embedding, [](const Embedding& m) {
    return sum(m(tensor({2, 1, 1, 2}, DType::i32)));
  });
  EXPECT_EQ(value.item(), 2 * (5 + 6 + 3 + 4));
  expect_exactly(gradient.table, {3, 2}, {0, 0, 2, 2, 0, 0});
}

TEST(Embedding, Starts) {
  Init init{.seed = 4};
  EXPECT_NEAR(deviation_of(Embedding(init, {.rows = 100, .width = 10}).table), 1, 0.1);
  EXPECT_NEAR(deviation_of(Embedding(init, {.rows = 100, .width = 10, .deviation = 0.02}).table), 0.02, 0.002);
}

TEST(Embedding, Gradients) {
  Init init{.seed = 5, .dtype = DType::f64};
  const Tensor ids = tensor({{3, 0}, {3, 1}}, DType::i32);
  const auto call = [&](const Embedding& m, const std::vector<Tensor>&) -> std::vector<Tensor> { return {m(ids)}; };
  const GradcheckReport plain = gradcheck_module(Embedding(init, {.rows = 4, .width = 2}), {}, call);
  EXPECT_TRUE(plain) << plain.failure;
  Buffer padding_row(Shape{4, 2}, DType::boolean);
  for (std::size_t i = 0; i < 8; ++i) padding_row.data<bool>()[i] = i / 2 == 3;
  GradcheckOptions options;
  options.exactly_zero = {Tensor(std::move(padding_row))};
  const GradcheckReport padded =
      gradcheck_module(Embedding(init, {.rows = 4, .width = 2, .padding_id = 3}), {}, call, options);
  EXPECT_TRUE(padded) << padded.failure;
}

TEST(Embedding, Errors) {
  Init init;
  EXPECT_EQ(error_of([&] { Embedding(init, {.rows = 5, .width = 2, .padding_id = 5}); }),
            "Embedding: padding_id must be in [0, 5); got 5");
  EXPECT_EQ(error_of([&] { Embedding(init, {.rows = 5, .width = 2, .padding_id = -1}); }),
            "Embedding: padding_id must be in [0, 5); got -1");
  const Embedding embedding(init, {.rows = 5, .width = 2});
  EXPECT_EQ(error_of([&] {
              embedding(tensor({{0, 1}, {4, 5}}, DType::i32));
            }),
            "embedding: ids must be in [0, 5); got 5 at [1, 1]");
  EXPECT_EQ(error_of([&] { embedding(tensor({-1}, DType::i32)); }), "embedding: ids must be in [0, 5); got -1 at [0]");
}

// ---- LayerNorm ------------------------------------------------------------------------------------------------------

TEST(LayerNorm, HandValues) {
  Init init{.seed = 1, .dtype = DType::f64};
  LayerNorm norm(init, {.width = 4});
  expect_exactly(norm.weight, {4}, {1, 1, 1, 1});
  expect_exactly(*norm.bias, {4}, {0, 0, 0, 0});
  const Tensor x = tensor({1, 2, 3, 4}, DType::f64);
  const double r = 1 / std::sqrt(1.25 + 1e-5);
  expect_near(norm(x), {4}, {-1.5 * r, -0.5 * r, 0.5 * r, 1.5 * r}, 1e-15);
  const LayerNorm with_eps(init, {.width = 4, .eps = 5});
  expect_near(with_eps(x), {4}, {-0.6, -0.2, 0.2, 0.6}, 1e-15);
  load_state(norm, {{"weight", tensor({2, 2, 2, 2}, DType::f64)}, {"bias", tensor({1, 0, 0, 0}, DType::f64)}});
  expect_near(norm(x), {4}, {1 - 3 * r, -r, r, 3 * r}, 1e-15);
}

TEST(LayerNorm, Shapes) {
  Init init;
  const LayerNorm norm(init, {.width = 4, .bias = false});
  EXPECT_FALSE(norm.bias.has_value());
  EXPECT_EQ(shape_of(norm, {4}), "[4]");
  EXPECT_EQ(shape_of(norm, {2, 0, 4}), "[2, 0, 4]");
}

TEST(LayerNorm, Gradients) {  // CASES 17
  Init init{.seed = 6, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    LayerNorm norm(init, {.width = 4, .bias = bias});
    StateDict state = state_dict(norm);
    state["weight"] = draw(2, {4});
    load_state(norm, state);
    // Rows of some spread: differences with a step of 1e-3 see rows of ±1 as strongly curved.
    const GradcheckReport report = check(norm, scale(draw(3, {2, 3, 4}), 4));
    EXPECT_TRUE(report) << report.failure;
  }
}

TEST(LayerNorm, Errors) {
  Init init;
  const LayerNorm norm(init, {.width = 4});
  EXPECT_EQ(error_of([&] { norm(ones({2, 3})); }), "LayerNorm: the last axis of x must be 4; got x [2, 3]");
  std::vector<LayerNorm> named{norm};
  name_parameters(named);
  EXPECT_EQ(error_of([&] { named[0](tensor(1)); }), "LayerNorm 0: the last axis of x must be 4; got x []");
  EXPECT_EQ(error_of([&] { named[0](ones({4}, DType::f64)); }),
            "LayerNorm 0: x must be f32 like the weight; got f64; cast it, or make the module with Init::dtype");
}

// ---- RmsNorm --------------------------------------------------------------------------------------------------------

TEST(RmsNorm, HandValues) {
  Init init{.seed = 1, .dtype = DType::f64};
  RmsNorm norm(init, {.width = 4});
  expect_exactly(norm.weight, {4}, {1, 1, 1, 1});
  const Tensor x = tensor({1, 2, 3, 4}, DType::f64);
  const double r = 1 / std::sqrt(7.5 + 1e-5);
  expect_near(norm(x), {4}, {r, 2 * r, 3 * r, 4 * r}, 1e-15);
  const RmsNorm with_eps(init, {.width = 4, .eps = 17.5});
  expect_near(with_eps(x), {4}, {0.2, 0.4, 0.6, 0.8}, 1e-15);
  load_state(norm, {{"weight", tensor({2, 1, 0, -1}, DType::f64)}});
  expect_near(norm(x), {4}, {2 * r, 2 * r, 0, -4 * r}, 1e-15);
  EXPECT_EQ(init.made, 2);
}

TEST(RmsNorm, Shapes) {
  Init init;
  const RmsNorm norm(init, {.width = 4});
  EXPECT_EQ(shape_of(norm, {4}), "[4]");
  EXPECT_EQ(shape_of(norm, {2, 0, 4}), "[2, 0, 4]");
  EXPECT_EQ(error_of([&] { norm(ones({2, 3})); }), "RmsNorm: the last axis of x must be 4; got x [2, 3]");
  std::vector<RmsNorm> named{norm};
  name_parameters(named);
  EXPECT_EQ(error_of([&] { named[0](tensor(1)); }), "RmsNorm 0: the last axis of x must be 4; got x []");
  EXPECT_EQ(error_of([&] { named[0](ones({4}, DType::f64)); }),
            "RmsNorm 0: x must be f32 like the weight; got f64; cast it, or make the module with Init::dtype");
}

TEST(RmsNorm, Gradients) {
  Init init{.seed = 6, .dtype = DType::f64};
  RmsNorm norm(init, {.width = 4});
  load_state(norm, {{"weight", draw(2, {4})}});
  const GradcheckReport report = check(norm, scale(draw(3, {2, 3, 4}), 4));
  EXPECT_TRUE(report) << report.failure;
}

// ---- Mlp ------------------------------------------------------------------------------------------------------------

TEST(Mlp, IsDownOfGeluOfUp) {
  Init init{.seed = 7, .dtype = DType::f64};
  const Mlp mlp(init, {.width = 3, .hidden = 5});
  const Tensor x = draw(4, {2, 3});
  EXPECT_TRUE(test::same_bits(mlp(x), mlp.down(gelu_tanh(mlp.up(x)))));
  EXPECT_EQ(to_string(mlp.up.weight.shape()), "[5, 3]");
  EXPECT_EQ(to_string(mlp(draw(4, {2, 7, 3})).shape()), "[2, 7, 3]");
}

TEST(Mlp, Starts) {
  Init init{.seed = 8};
  const Mlp mlp(init, {.width = 32, .hidden = 64, .deviation = 0.02, .residual_deviation = 0.005});
  EXPECT_NEAR(deviation_of(mlp.up.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(mlp.down.weight), 0.005, 0.0003);
  const Mlp alike(init, {.width = 32, .hidden = 64, .deviation = 0.02});
  EXPECT_NEAR(deviation_of(alike.down.weight), 0.02, 0.001);
}

TEST(Mlp, Gradients) {
  Init init{.seed = 9, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    const Mlp mlp(init, {.width = 3, .hidden = 4, .bias = bias});
    const GradcheckReport report = check(mlp, draw(5, {2, 3}));
    EXPECT_TRUE(report) << report.failure;
  }
}

TEST(GatedMlp, IsDownOfSiluOfGateTimesUp) {
  Init init{.seed = 7, .dtype = DType::f64};
  const GatedMlp mlp(init, {.width = 3, .hidden = 5});
  EXPECT_EQ(init.made, 3);  // no biases
  const Tensor x = draw(4, {2, 3});
  std::vector<double> inner = mlp.gate(x).to_doubles();
  for (double& value : inner) value /= 1 + std::exp(-value);
  const Tensor expected = mlp.down(tensor(inner, {2, 5}) * mlp.up(x));
  expect_near(mlp(x), {2, 3}, expected.to_doubles(), 1e-15);
  EXPECT_EQ(to_string(mlp.gate.weight.shape()), "[5, 3]");
  EXPECT_EQ(to_string(mlp.down.weight.shape()), "[3, 5]");
  EXPECT_EQ(to_string(mlp(draw(4, {2, 0, 3})).shape()), "[2, 0, 3]");
  EXPECT_EQ(count_tensors(GatedMlp(init, {.width = 3, .hidden = 5, .bias = true})), 6);
}

TEST(GatedMlp, Starts) {
  Init init{.seed = 8};
  const GatedMlp mlp(init, {.width = 32, .hidden = 64, .deviation = 0.02, .residual_deviation = 0.005});
  EXPECT_NEAR(deviation_of(mlp.gate.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(mlp.up.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(mlp.down.weight), 0.005, 0.0003);
}

TEST(GatedMlp, Gradients) {
  Init init{.seed = 9, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    const GatedMlp mlp(init, {.width = 3, .hidden = 4, .bias = bias});
    const GradcheckReport report = check(mlp, draw(5, {2, 3}));
    EXPECT_TRUE(report) << report.failure;
  }
}

TEST(GatedMlp, FarFromZeroGradientsAreFinite) {
  Init init{.seed = 10};
  const GatedMlp mlp(init, {.width = 4, .hidden = 8});
  const GatedMlp gradient = grad(mlp, [](const GatedMlp& m) { return sum(m(full({2, 4}, 1e4))); });
  for_each_tensor(gradient, [](const Tensor& dx) {
    for (const double value : dx.to_doubles()) EXPECT_TRUE(std::isfinite(value));
  });
}

TEST(Mlp, IsFourTimesAsWideInsideUnlessToldOtherwise) {
  Init init;
  const Mlp mlp(init, {.width = 3});
  EXPECT_EQ(to_string(mlp.up.weight.shape()), "[12, 3]");
  EXPECT_EQ(to_string(mlp.down.weight.shape()), "[3, 12]");
}

TEST(Mlp, Errors) {
  Init init;
  EXPECT_EQ(error_of([&] { Mlp(init, {}); }),
            "Mlp: width must be positive and hidden not negative; got width 0 and hidden 0");
  EXPECT_EQ(error_of([&] { Mlp(init, {.width = 3, .hidden = -1}); }),
            "Mlp: width must be positive and hidden not negative; got width 3 and hidden -1");
  EXPECT_EQ(error_of([&] { GatedMlp(init, {.width = 3}); }),
            "GatedMlp: width and hidden must be positive; got width 3 and hidden 0");
  EXPECT_EQ(error_of([&] { GatedMlp(init, {.hidden = 3}); }),
            "GatedMlp: width and hidden must be positive; got width 0 and hidden 3");
  EXPECT_EQ(init.made, 0);
}

}  // namespace
}  // namespace capstan::nn
