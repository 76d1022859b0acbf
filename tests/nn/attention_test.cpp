// Tests of nn/attention.h: one head against many, causality, permutations, padding, cross-attention, grouped queries,
// gradients. Against reference results: golden_attention_test.cpp.
#include <capstan/nn/nn.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/expect.h"
#include "support/states.h"

namespace capstan::nn {
namespace {

using test::error_of;
using test::expect_near;
using test::same_bits;

Tensor draw(std::uint64_t stream, const Shape& shape, DType dtype = DType::f64) {
  return uniform(Key{7, stream}, shape, -1, 1, dtype);
}

MultiHeadAttention make(const MultiHeadAttention::Config& config, DType dtype = DType::f64) {
  Init init{.seed = 3, .dtype = dtype};
  return MultiHeadAttention(init, config);
}

std::string shape_of(const Tensor& x) { return to_string(x.shape()); }

/// x [B, T, C] with other numbers at token t.
Tensor with_other_token(const Tensor& x, Index t) {
  const Index length = x.shape()[1];
  const Tensor other = scale(slice(x, 1, t, t + 1), -3, 0.5);
  return concat({slice(x, 1, 0, t), other, slice(x, 1, t + 1, length)}, 1);
}

// ---- one head -------------------------------------------------------------------------------------------------------

TEST(SingleHeadAttention, AllWidthsAreFree) {
  Init init{.seed = 1, .dtype = DType::f64};
  const SingleHeadAttention head(init, {.d_model = 5, .d_k = 2, .d_v = 3});
  EXPECT_EQ(shape_of(head(draw(1, {2, 4, 5}))), "[2, 4, 3]");
  EXPECT_EQ(shape_of(head(draw(1, {0, 4, 5}))), "[0, 4, 3]");
  EXPECT_EQ(shape_of(head(draw(1, {2, 0, 5}))), "[2, 0, 3]");
  const AttentionResult result = head.attend(draw(1, {2, 4, 5}), draw(2, {2, 6, 5}), {});
  EXPECT_EQ(shape_of(result.output), "[2, 4, 3]");
  EXPECT_EQ(shape_of(result.weights), "[2, 1, 4, 6]");
}

TEST(SingleHeadAttention, IsMultiHeadAttentionWithOneHeadAndAnIdentityProjection) {
  Init init{.seed = 1, .dtype = DType::f64};
  const SingleHeadAttention single(init, {.d_model = 4, .d_k = 4, .d_v = 4});
  MultiHeadAttention multi = make({.width = 4, .heads = 1});
  StateDict state = state_dict(single);
  state["project.weight"] = eye(4, DType::f64);
  state["project.bias"] = zeros({4}, DType::f64);
  load_state(multi, state);
  const Tensor x = draw(1, {2, 5, 4}), memory = draw(2, {2, 3, 4});
  EXPECT_TRUE(same_bits(single(x), multi(x)));
  EXPECT_TRUE(same_bits(single.attend(x, memory, {}).output, multi.attend(x, memory, {}).output));
  EXPECT_TRUE(same_bits(single.attend(x, memory, {}).weights, multi.attend(x, memory, {}).weights));
}

TEST(SingleHeadAttention, Gradients) {
  Init init{.seed = 2, .dtype = DType::f64};
  for (const bool bias : {true, false}) {
    const SingleHeadAttention head(init, {.d_model = 3, .d_k = 2, .d_v = 4, .bias = bias});
    const GradcheckReport report = gradcheck_module(
        head, {draw(1, {2, 3, 3})}, [](const auto& m, const std::vector<Tensor>& in) -> std::vector<Tensor> {
          const AttentionResult result = m.attend(in[0], in[0], Mask::causal());
          return {result.output, result.weights};
        });
    EXPECT_TRUE(report) << report.failure;
  }
}

TEST(SingleHeadAttention, Errors) {
  Init init;
  EXPECT_EQ(error_of([&] { SingleHeadAttention(init, {.d_model = 3, .d_v = 2}); }),
            "SingleHeadAttention: d_model, d_k and d_v must be positive; got 3, 0 and 2");
  const SingleHeadAttention head(init, {.d_model = 3, .d_k = 2, .d_v = 2});
  EXPECT_EQ(error_of([&] { head(ones({4, 3})); }), "SingleHeadAttention: x must be [B, T, 3]; got [4, 3]");
  EXPECT_EQ(error_of([&] {
              head.attend(ones({1, 4, 3}), ones({1, 4, 2}), {});
            }),
            "SingleHeadAttention: memory must be [B, T, 3]; got [1, 4, 2]");
}

// ---- causality ------------------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, LaterTokensReachNoEarlierOutput) {  // CASES 37
  for (const DType dtype : {DType::f32, DType::f64}) {
    const MultiHeadAttention attention = make({.width = 8, .heads = 2}, dtype);
    const Tensor x = draw(1, {2, 6, 8}, dtype);
    const Tensor before = attention(x);
    for (Index t = 0; t < 6; ++t) {
      const Tensor after = attention(with_other_token(x, t));
      EXPECT_TRUE(same_bits(slice(after, 1, 0, t), slice(before, 1, 0, t))) << t;
      for (Index s = t; s < 6; ++s)
        EXPECT_FALSE(same_bits(slice(after, 1, s, s + 1), slice(before, 1, s, s + 1))) << t << " " << s;
    }
  }
}

TEST(MultiHeadAttention, DerivativesByLaterTokensAreExactlyZero) {
  const MultiHeadAttention attention = make({.width = 4, .heads = 2});
  const Tensor x = draw(1, {2, 5, 4});
  for (Index s = 0; s < 5; ++s) {
    const Tensor dx = grad(x, [&](const Tensor& in) { return sum(slice(attention(in), 1, s, s + 1)); });
    for (const double zero : slice(dx, 1, s + 1, 5).to_doubles()) EXPECT_EQ(zero, 0);
    for (const double value : slice(dx, 1, 0, s + 1).to_doubles()) EXPECT_NE(value, 0);
  }
}

TEST(MultiHeadAttention, WeightsAreRowsOfProbabilities) {
  const MultiHeadAttention attention = make({.width = 6, .heads = 3});
  const Tensor x = draw(1, {2, 5, 6});
  const Tensor weights = attention.attend(x, x, Mask::causal()).weights;
  ASSERT_EQ(shape_of(weights), "[2, 3, 5, 5]");
  for (const double total : sum(weights, -1).to_doubles()) EXPECT_NEAR(total, 1, 1e-15);
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 5; ++j)
      for (Index h = 0; h < 3; ++h) {
        const double weight = weights.at({1, h, i, j});
        if (j > i)
          EXPECT_EQ(weight, 0);
        else
          EXPECT_GT(weight, 0);
      }
}

// ---- properties -----------------------------------------------------------------------------------------------------

RC_GTEST_PROP(MultiHeadAttentionProperty, WithoutMaskPermutedTokensGivePermutedOutputs, ()) {
  const Index length = *rc::gen::inRange<Index>(1, 9), heads = *rc::gen::element<Index>(1, 2, 4);
  std::vector<std::int32_t> order(static_cast<std::size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  for (Index i = length - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(*rc::gen::inRange<Index>(0, i + 1))]);
  const Tensor places = tensor(order, Shape{length});
  const MultiHeadAttention attention = make({.width = 8, .heads = heads});
  const Tensor x = draw(*rc::gen::arbitrary<std::uint32_t>(), {length, 8});
  const auto attend = [&](const Tensor& rows) {
    return reshape(attention(reshape(rows, Shape{1, length, 8}), Mask::all()), Shape{length, 8});
  };
  const std::vector<double> a = embedding(attend(x), places).to_doubles();
  const std::vector<double> b = attend(embedding(x, places)).to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) RC_ASSERT(std::abs(a[i] - b[i]) < 1e-13);
}

TEST(MultiHeadAttention, PaddingIsAsGoodAsAbsent) {
  const MultiHeadAttention attention = make({.width = 4, .heads = 2});
  const Tensor x = draw(1, {2, 5, 4});
  const Tensor padded = attention(x, Mask::padding({3, 5}));
  const Tensor shorter = attention(slice(slice(x, 0, 0, 1), 1, 0, 3), Mask::all());
  const Tensor whole = attention(slice(x, 0, 1, 2), Mask::all());
  expect_near(slice(slice(padded, 0, 0, 1), 1, 0, 3), {1, 3, 4}, shorter.to_doubles(), 1e-14);
  expect_near(slice(padded, 0, 1, 2), {1, 5, 4}, whole.to_doubles(), 1e-14);
  const Tensor other = attention(with_other_token(x, 4), Mask::padding({3, 5}));
  EXPECT_TRUE(same_bits(slice(slice(other, 0, 0, 1), 1, 0, 4), slice(slice(padded, 0, 0, 1), 1, 0, 4)));
}

TEST(MultiHeadAttention, ARowWithoutKeysLeavesGradientsFinite) {  // CASES 33
  const MultiHeadAttention attention = make({.width = 1, .heads = 1});
  const Tensor keep = tensor({{1, 0, 0}, {1, 1, 0}, {0, 1, 1}}, DType::boolean);
  const Mask mask = Mask::padding({3, 1}) & Mask::keep(keep);
  const Tensor x = draw(1, {2, 3, 1});
  const auto row = [&](const MultiHeadAttention& m, Index i) { return slice(m(x, mask), 1, i, i + 1); };
  expect_near(slice(row(attention, 2), 0, 1, 2), {1, 1, 1}, attention.project.bias->value().to_doubles(), 0);
  const MultiHeadAttention gradient =
      grad(attention, [&](const MultiHeadAttention& m) { return sum(row(m, 0) * row(m, 0)); });
  for (const auto& [name, dx] : state_dict(gradient))
    for (const double value : dx.to_doubles()) EXPECT_TRUE(std::isfinite(value)) << name;
}

// ---- cross-attention ------------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, CrossesToAMemoryOfAnotherWidthAndLength) {
  const MultiHeadAttention attention = make({.width = 4, .heads = 2, .memory_width = 3});
  EXPECT_EQ(shape_of(attention.key.weight.value()), "[4, 3]");
  EXPECT_EQ(shape_of(attention.value.weight.value()), "[4, 3]");
  const Tensor x = draw(1, {2, 2, 4}), memory = draw(2, {2, 5, 3});
  const Tensor output = attention(x, memory);
  EXPECT_EQ(shape_of(output), "[2, 2, 4]");
  EXPECT_EQ(shape_of(attention.attend(x, memory, {}).weights), "[2, 2, 2, 5]");
  for (Index t = 0; t < 5; ++t)  // nothing is masked
    EXPECT_FALSE(same_bits(slice(attention(x, with_other_token(memory, t)), 1, 0, 1), slice(output, 1, 0, 1)));
  EXPECT_TRUE(same_bits(attention(x, memory, Mask::padding({5, 5})), output));
  EXPECT_EQ(shape_of(attention(x, draw(2, {2, 0, 3}))), "[2, 2, 4]");
}

TEST(MultiHeadAttention, TakesKeysAndValuesFromTwoMemories) {
  const MultiHeadAttention attention = make({.width = 4, .heads = 2, .memory_width = 3, .value_width = 5});
  EXPECT_EQ(shape_of(attention.key.weight.value()), "[4, 3]");
  EXPECT_EQ(shape_of(attention.value.weight.value()), "[4, 5]");
  EXPECT_EQ(shape_of(attention.attend(draw(1, {2, 2, 4}), draw(2, {2, 6, 3}), draw(3, {2, 6, 5}), {}).output),
            "[2, 2, 4]");
  const MultiHeadAttention values_only = make({.width = 4, .heads = 2, .value_width = 5});
  EXPECT_EQ(shape_of(values_only.key.weight.value()), "[4, 4]");
  EXPECT_EQ(shape_of(values_only.value.weight.value()), "[4, 5]");
}

// ---- grouped queries ------------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, BothKernelsAreOneFunction) {
  const Tensor x = draw(1, {2, 5, 16}), memory = draw(2, {2, 7, 16}), up = draw(3, {2, 5, 16});
  const MultiHeadAttention fused = make({.width = 16, .heads = 4, .kv_heads = 2, .rotary = Rotary::half_split});
  MultiHeadAttention reference = fused;
  reference.kernel = AttentionKernel::reference;
  const auto run = [&](const MultiHeadAttention& module, bool cross) {
    Tape tape;
    const MultiHeadAttention m = watch(tape, module);
    const Tensor y = cross ? m(x, memory, Mask::padding({7, 3})) : m(x);
    const auto names = tape.names();
    EXPECT_EQ(std::ranges::find(names, "attention") != names.end(), module.kernel == AttentionKernel::fused);
    return std::pair(y.detach(), state_dict(tape.backward(y, up).of(m)));
  };
  for (const bool cross : {false, true}) {
    const auto [got, gradients] = run(fused, cross);
    const auto [want, expected] = run(reference, cross);
    expect_near(got, want.shape(), want.to_doubles(), 1e-13);
    for (const auto& [name, gradient] : expected)
      expect_near(gradients.at(name), gradient.shape(), gradient.to_doubles(), 1e-12);
  }
}

TEST(MultiHeadAttention, GroupedQueriesShareAHeadOfKeysAndValues) {
  const MultiHeadAttention grouped = make({.width = 8, .heads = 4, .kv_heads = 2});
  EXPECT_EQ(shape_of(grouped.key.weight.value()), "[4, 8]");
  EXPECT_EQ(shape_of(grouped.value.bias->value()), "[4]");
  EXPECT_EQ(grouped.kv_heads, 2);
  // The same with a head of keys and values for each query head: 0, 0, 1, 1.
  MultiHeadAttention full = make({.width = 8, .heads = 4});
  StateDict state = state_dict(grouped);
  for (const char* name : {"key.weight", "key.bias", "value.weight", "value.bias"}) {
    const Tensor first = slice(state[name], 0, 0, 2), second = slice(state[name], 0, 2, 4);
    state[name] = concat({first, first, second, second}, 0);
  }
  load_state(full, state);
  const Tensor x = draw(1, {2, 5, 8});
  expect_near(grouped(x), {2, 5, 8}, full(x).to_doubles(), 1e-14);
}

// ---- rotary embedding -----------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, RotaryTurnsQueriesAndKeys) {
  for (const Rotary rotary : {Rotary::half_split, Rotary::adjacent_pairs}) {
    const MultiHeadAttention attention =
        make({.width = 8, .heads = 2, .kv_heads = 1, .rotary = rotary, .rotary_base = 100});
    const Tensor x = draw(1, {2, 5, 8});
    const auto heads = [](const Tensor& y, Index count) {
      return permute(reshape(y, Shape{2, 5, count, 4}), {0, 2, 1, 3});
    };
    const auto turned = [&](const Tensor& y) {
      return rotary == Rotary::half_split ? rotary_half_split(y, {.base = 100})
                                          : rotary_adjacent_pairs(y, {.base = 100});
    };
    const Tensor mixed = attention_reference(turned(heads(attention.query(x), 2)), turned(heads(attention.key(x), 1)),
                                             heads(attention.value(x), 1), {.mask = Mask::causal()})
                             .output;
    const Tensor expected = attention.project(reshape(permute(mixed, {0, 2, 1, 3}), Shape{2, 5, 8}));
    expect_near(attention(x), {2, 5, 8}, expected.to_doubles(), 1e-14);
    EXPECT_FALSE(same_bits(attention(x), make({.width = 8, .heads = 2, .kv_heads = 1})(x)));
  }
}

TEST(MultiHeadAttention, WithRotaryEqualTokensAreToldApartByDistanceAlone) {
  const MultiHeadAttention attention = make({.width = 4, .heads = 1, .rotary = Rotary::half_split});
  const Tensor x = broadcast_to(draw(1, {1, 1, 4}), Shape{1, 6, 4});
  const AttentionResult result = attention.attend(x, x, Mask::causal());
  // Scores depend on i − j alone, so each row's ratios are those of the last row.
  for (Index i = 1; i < 6; ++i)
    for (Index j = 0; j < i; ++j)
      EXPECT_NEAR(result.weights.at({0, 0, i, j}) / result.weights.at({0, 0, i, i}),
                  result.weights.at({0, 0, 5, j + 5 - i}) / result.weights.at({0, 0, 5, 5}), 1e-14);
  EXPECT_NE(result.weights.at({0, 0, 5, 0}), result.weights.at({0, 0, 5, 5}));
}

// ---- gradients ------------------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, Gradients) {
  using Config = MultiHeadAttention::Config;
  for (const Config& config :
       {Config{.width = 4, .heads = 2}, Config{.width = 4, .heads = 2, .bias = false},
        Config{.width = 4, .heads = 4, .kv_heads = 2}, Config{.width = 4, .heads = 2, .rotary = Rotary::half_split},
        Config{.width = 4, .heads = 1, .rotary = Rotary::adjacent_pairs},
        Config{.width = 3, .heads = 3, .kv_heads = 1, .bias = false}}) {
    const GradcheckReport report =
        gradcheck_module(make(config), {draw(1, {1, 3, config.width})},
                         [](const auto& m, const std::vector<Tensor>& in) -> std::vector<Tensor> {
                           const AttentionResult result = m.attend(in[0], in[0], Mask::causal());
                           return {result.output, result.weights};
                         });
    EXPECT_TRUE(report) << config.width << " " << config.heads << " " << config.kv_heads << ": " << report.failure;
  }
}

TEST(MultiHeadAttention, GradientsAcross) {
  const GradcheckReport report =
      gradcheck_module(make({.width = 4, .heads = 2, .memory_width = 3, .value_width = 2}),
                       {draw(1, {2, 2, 4}), draw(2, {2, 3, 3}), draw(3, {2, 3, 2})},
                       [](const auto& m, const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         return {m.attend(in[0], in[1], in[2], Mask::padding({3, 2})).output};
                       });
  EXPECT_TRUE(report) << report.failure;
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(MultiHeadAttention, Errors) {
  EXPECT_EQ(error_of([] { make({.width = 6, .heads = 4}); }),
            "MultiHeadAttention: width must be a positive multiple of heads; got width 6 and heads 4");
  EXPECT_EQ(error_of([] { make({.heads = 4}); }),
            "MultiHeadAttention: width must be a positive multiple of heads; got width 0 and heads 4");
  EXPECT_EQ(error_of([] { make({.width = 4, .heads = 0}); }),
            "MultiHeadAttention: width must be a positive multiple of heads; got width 4 and heads 0");
  EXPECT_EQ(error_of([] { make({.width = 8, .heads = 4, .kv_heads = 3}); }),
            "MultiHeadAttention: heads must be a multiple of kv_heads; got heads 4 and kv_heads 3");
  EXPECT_EQ(error_of([] { make({.width = 6, .heads = 2, .rotary = Rotary::half_split}); }),
            "MultiHeadAttention: rotary needs an even head size; got width 6 and heads 2");
  const MultiHeadAttention attention = make({.width = 4, .heads = 2, .memory_width = 3, .value_width = 5});
  const auto x = [](Index length, Index width) { return draw(1, {2, length, width}); };
  EXPECT_EQ(error_of([&] { attention(draw(1, {2, 4})); }), "MultiHeadAttention: x must be [B, T, 4]; got [2, 4]");
  EXPECT_EQ(error_of([&] { attention(x(3, 5)); }), "MultiHeadAttention: x must be [B, T, 4]; got [2, 3, 5]");
  EXPECT_EQ(error_of([&] { attention.attend(x(3, 4), x(3, 4), x(3, 5), {}); }),
            "MultiHeadAttention: memory of keys must be [B, T, 3]; got [2, 3, 4]");
  EXPECT_EQ(error_of([&] { attention(x(3, 4), x(3, 3)); }),
            "MultiHeadAttention: memory of values must be [B, T, 5]; got [2, 3, 3]");
  EXPECT_EQ(error_of([] {
              make({.width = 4, .heads = 2})(draw(1, {2, 3, 4}), draw(1, {2, 5, 4}), Mask::causal());
            }),
            "mask: causal() and window() need Tq = Tk or an alignment; got Tq 3 and Tk 5; say Align::top_left or "
            "Align::bottom_right");
}

}  // namespace
}  // namespace capstan::nn
