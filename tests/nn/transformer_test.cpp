// Tests of transformer.h: the block and the language model as compositions, their start, causality, gradients, errors.
// Against reference results: golden_gpt2_test.cpp.
#include <capstan/nn/nn.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::nn {
namespace {

using test::error_of;
using test::expect_near;
using test::same_bits;

Tensor draw(std::uint64_t stream, const Shape& shape) { return uniform(Key{7, stream}, shape, -1, 1, DType::f64); }

Gpt make(const Gpt::Config& config, DType dtype = DType::f64) {
  Init init{.seed = 3, .dtype = dtype};
  return Gpt(init, config);
}
constexpr Gpt::Config small = {.vocab = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2};

Tensor ids(const std::vector<std::int32_t>& row) { return tensor(row, {1, static_cast<Index>(row.size())}); }

double deviation_of(const Tensor& x) {
  double sum = 0;
  for (const double element : x.to_doubles()) sum += element * element;
  return std::sqrt(sum / static_cast<double>(x.elements()));
}

// ---- Block ----------------------------------------------------------------------------------------------------------

TEST(Block, AddsAttentionAndMlpOfTheNormedStream) {
  Init init{.seed = 1, .dtype = DType::f64};
  const Block block(init, {.width = 4, .heads = 2});
  const Tensor x = draw(1, {2, 3, 4});
  const Tensor attended = x + block.attention(block.attention_norm(x));
  EXPECT_TRUE(same_bits(block(x), attended + block.mlp(block.mlp_norm(attended))));
  EXPECT_FALSE(same_bits(block(x), block(x, Mask::all())));
  EXPECT_EQ(to_string(block(draw(1, {0, 3, 4})).shape()), "[0, 3, 4]");
}

TEST(Block, HiddenWidthIsFourTimesTheWidthUnlessTold) {
  Init init;
  EXPECT_EQ(to_string(Block(init, {.width = 4, .heads = 2}).mlp.up.weight.shape()), "[16, 4]");
  EXPECT_EQ(to_string(Block(init, {.width = 4, .heads = 2, .hidden = 5}).mlp.up.weight.shape()), "[5, 4]");
}

TEST(Block, DerivativesByLaterTokensAreExactlyZero) {
  Init init{.seed = 1, .dtype = DType::f64};
  const Block block(init, {.width = 4, .heads = 2});
  const Tensor x = draw(1, {1, 4, 4});
  for (Index s = 0; s < 4; ++s) {
    const Tensor cotangent = draw(2, {1, 1, 4});
    const Tensor dx = vjp(
                          x, [&](const Tensor& in) { return slice(block(in), 1, s, s + 1); }, cotangent)
                          .gradient;
    for (const double zero : slice(dx, 1, s + 1, 4).to_doubles()) EXPECT_EQ(zero, 0);
    for (const double value : slice(dx, 1, 0, s + 1).to_doubles()) EXPECT_NE(value, 0);
  }
}

TEST(Block, Gradients) {
  Init init{.seed = 2, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    const Block block(init, {.width = 4, .heads = 2, .hidden = 5, .bias = bias});
    const GradcheckReport report = gradcheck_module(
        block, {draw(1, {1, 3, 4})},
        [](const Block& m, const std::vector<Tensor>& in) -> std::vector<Tensor> { return {m(in[0])}; });
    EXPECT_TRUE(report) << report.failure;
  }
}

// ---- Gpt ------------------------------------------------------------------------------------------------------------

TEST(Gpt, Shapes) {
  const Gpt model = make(small, DType::f32);
  const auto shape = [&](const Shape& of) { return to_string(model(zeros(of, DType::i32)).shape()); };
  EXPECT_EQ(shape({2, 3}), "[2, 3, 11]");
  EXPECT_EQ(shape({1, 6}), "[1, 6, 11]");  // the whole context
  EXPECT_EQ(shape({1, 1}), "[1, 1, 11]");
  EXPECT_EQ(shape({0, 3}), "[0, 3, 11]");
  EXPECT_EQ(shape({2, 0}), "[2, 0, 11]");
  EXPECT_EQ(to_string(model.hidden(zeros({2, 3}, DType::i32)).shape()), "[2, 3, 8]");
}

TEST(Gpt, IsEmbeddingsBlocksNormAndTheTiedHead) {
  const Gpt model = make(small);
  const Tensor row = ids({3, 1, 4, 1});
  Tensor x = model.tokens(row) + model.positions(arange(4));
  for (const Block& block : model.blocks) x = block(x);
  x = model.norm(x);
  EXPECT_TRUE(same_bits(model.hidden(row), x));
  expect_near(model(row), {1, 4, 11}, matmul(x, transpose(model.tokens.table)).to_doubles(), 1e-14);
}

TEST(Gpt, WithoutBlocksIsAModelToo) {
  const Gpt model = make({.vocab = 5, .context = 3, .width = 4, .blocks = 0});
  EXPECT_TRUE(model.blocks.empty());
  EXPECT_EQ(to_string(model(ids({0, 1})).shape()), "[1, 2, 5]");
}

TEST(Gpt, StartsSmallAndSmallerTowardsTheResidualStream) {
  const Gpt model = make({.vocab = 64, .context = 32, .width = 64, .heads = 4, .blocks = 8}, DType::f32);
  const double residual = 0.02 / 4;  // √(2 · 8)
  EXPECT_NEAR(deviation_of(model.tokens.table), 0.02, 0.001);
  EXPECT_NEAR(deviation_of(model.positions.table), 0.02, 0.002);
  for (const Block& block : model.blocks) {
    EXPECT_NEAR(deviation_of(block.attention.query.weight), 0.02, 0.001);
    EXPECT_NEAR(deviation_of(block.attention.key.weight), 0.02, 0.001);
    EXPECT_NEAR(deviation_of(block.attention.value.weight), 0.02, 0.001);
    EXPECT_NEAR(deviation_of(block.mlp.up.weight), 0.02, 0.001);
    EXPECT_NEAR(deviation_of(block.attention.project.weight), residual, residual / 20);
    EXPECT_NEAR(deviation_of(block.mlp.down.weight), residual, residual / 20);
    EXPECT_EQ(deviation_of(*block.mlp.down.bias), 0);
  }
  // So the first predictions are nearly uniform.
  const Tensor row = reshape(arange(32), Shape{1, 32}), targets = row + full({}, 32, DType::i32);
  EXPECT_NEAR(cross_entropy(model(row), targets).item(), std::log(64), 0.1);
}

TEST(Gpt, LaterTokensReachNoEarlierLogits) {  // CASES 37
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Gpt model = make(small, dtype);
    const std::vector<std::int32_t> row = {3, 1, 4, 1, 5, 9};
    const Tensor before = model(ids(row));
    for (Index t = 0; t < 6; ++t) {
      std::vector<std::int32_t> other = row;
      other[static_cast<std::size_t>(t)] = 10;
      const Tensor after = model(ids(other));
      EXPECT_TRUE(same_bits(slice(after, 1, 0, t), slice(before, 1, 0, t))) << t;
      EXPECT_FALSE(same_bits(slice(after, 1, t, t + 1), slice(before, 1, t, t + 1))) << t;
      EXPECT_FALSE(
          same_bits(slice(model(ids(other), Mask::all()), 1, 0, 1), slice(model(ids(row), Mask::all()), 1, 0, 1)));
    }
  }
}

TEST(Gpt, PositionsMatter) {
  const Gpt model = make(small);
  const Tensor logits = model(ids({2, 2}), Mask::all());
  EXPECT_FALSE(same_bits(slice(logits, 1, 0, 1), slice(logits, 1, 1, 2)));
}

TEST(Gpt, TheTiedTableGetsBothPartsOfItsGradient) {
  const Gpt model = make(small);
  const Tensor row = ids({3, 1, 4}), targets = ids({1, 4, 2});
  const Gpt gradient = grad(model, [&](const Gpt& m) { return cross_entropy(m(row), targets); });
  // As if the head had a table of its own.
  const auto [embedded, head] = std::pair{
      grad(model, [&](const Gpt& m) { return cross_entropy(linear(m.hidden(row), model.tokens.table), targets); }),
      grad(model.tokens.table.value(),
           [&](const Tensor& table) { return cross_entropy(linear(model.hidden(row), table), targets); })};
  expect_near(gradient.tokens.table, {11, 8}, (embedded.tokens.table.value() + head).to_doubles(), 1e-15);
  EXPECT_EQ(state_dict(model).count("head.weight"), 0U);
}

TEST(Gpt, LossIsTheCrossEntropyOfItsLogits) {
  const Gpt model = make(small);
  const Tensor some = tensor({{3, 1, 4, 1}, {5, 9, 2, 6}}, DType::i32),
               next = tensor({{1, 4, 1, 5}, {9, 2, 6, -1}}, DType::i32);
  const CrossEntropyOptions options{.ignore_index = -1};
  const auto composed = value_and_grad(model, [&](const Gpt& m) { return cross_entropy(m(some), next, options); });
  const auto fused = value_and_grad(model, [&](const Gpt& m) { return m.loss(some, next, options); });
  EXPECT_NEAR(fused.value.item(), composed.value.item(), 1e-14);
  EXPECT_NEAR(model.loss(some, next, options).item(), composed.value.item(), 1e-14) << "no tape";
  std::vector<Tensor> want;
  for_each_tensor(composed.gradient, [&](const Tensor& g) { want.push_back(g); });
  std::size_t i = 0;
  for_each_tensor(fused.gradient, [&](const Tensor& g) {
    expect_near(g, g.shape(), want[i].to_doubles(), 1e-14);
    ++i;
  });
  EXPECT_NE(fused.value.item(), model.loss(some, next, options, Mask::all()).item());
}

TEST(Gpt, Gradients) {
  for (const bool bias : {true, false}) {
    Gpt model = make({.vocab = 4, .context = 3, .width = 4, .heads = 2, .blocks = 1, .hidden = 3, .bias = bias});
    // Weights of the size of a trained model's: at its start the model is almost linear.
    std::uint64_t stream = 10;
    for_each_tensor(model, [&](Tensor& x) { x = scale(draw(stream++, x.shape()), 0.7, x.rank() == 1 ? 0.3 : 0); });
    const Tensor row = ids({2, 0, 2}), targets = ids({0, 2, 3});
    const GradcheckReport report =
        gradcheck_module(model, {}, [&](const Gpt& m, const std::vector<Tensor>&) -> std::vector<Tensor> {
          return {cross_entropy(m(row), targets)};
        });
    EXPECT_TRUE(report) << report.failure;
    const GradcheckReport logits = gradcheck_module(
        model, {}, [&](const Gpt& m, const std::vector<Tensor>&) -> std::vector<Tensor> { return {m(row)}; },
        {.order = 1});
    EXPECT_TRUE(logits) << logits.failure;
  }
}

TEST(Gpt, Errors) {
  const Gpt model = make(small, DType::f32);
  EXPECT_EQ(error_of([&] {
              model(zeros({1, 7}, DType::i32));
            }),
            "Gpt: a sequence must have at most 6 tokens, the context; got 7; pass its last tokens or raise "
            "Config::context");
  EXPECT_EQ(error_of([&] { model(zeros({3}, DType::i32)); }), "Gpt: ids must be [B, T]; got [3]");
  EXPECT_EQ(error_of([&] { model(ids({0, 11})); }), "embedding: ids must be in [0, 11); got 11 at [0, 1]");
  EXPECT_EQ(error_of([&] { model(ids({-1})); }), "embedding: ids must be in [0, 11); got -1 at [0, 0]");
  EXPECT_EQ(error_of([&] { model(zeros({1, 3})); }), "embedding: ids must be i32; got f32; cast it first");
  EXPECT_EQ(error_of([] { make({.vocab = 0, .context = 1, .width = 2, .blocks = 1}); }),
            "Gpt: vocab, context and width must be positive and blocks not negative; got 0, 1, 2 and 1");
  EXPECT_EQ(error_of([] { make({.vocab = 3, .context = 1, .width = 2, .blocks = -1}); }),
            "Gpt: vocab, context and width must be positive and blocks not negative; got 3, 1, 2 and -1");
  EXPECT_EQ(error_of([] { make({.vocab = 3, .context = 1, .width = 6, .heads = 4}); }),
            "MultiHeadAttention: width must be a positive multiple of heads; got width 6 and heads 4");
}

}  // namespace
}  // namespace capstan::nn
