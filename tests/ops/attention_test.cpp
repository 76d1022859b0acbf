// The composed attention: promises of masks, alignments, grouped heads, biases, empty sizes, gradients, errors.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
// After gtest, which it needs.
#include <rapidcheck/gtest.h>

#include "support/expect.h"
#include "support/naive_attention.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}
Tensor boolean(const NestedList& list) { return tensor(list, DType::boolean); }

struct Gradient {
  Tensor output, dq, dk, dv;
};
Gradient run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, const Tensor& up,
             bool create_graph = false) {
  Tape tape;
  const Tensor wq = tape.watch(q), wk = tape.watch(k), wv = tape.watch(v);
  const Tensor output = attention_reference(wq, wk, wv, options).output;
  const Gradients g = tape.backward(output, up, {.create_graph = create_graph});
  return {output.detach(), g.of(wq).detach(), g.of(wk).detach(), g.of(wv).detach()};
}

// ---- values ---------------------------------------------------------------------------------------------------------

TEST(Attention, ByHand) {
  const Tensor x = tensor({{{{1, 0}, {0, 1}, {1, 1}}}}, DType::f64);
  const AttentionResult result = attention_reference(x, x, x, {.mask = Mask::causal()});
  const double e = std::exp(1 / std::sqrt(2.0));
  const double second = 1 / (1 + e), third = 1 / (2 + e);
  expect_near(result.weights, {1, 1, 3, 3}, {1, 0, 0, second, 1 - second, 0, third, third, 1 - 2 * third}, 1e-15);
  expect_near(result.output, {1, 1, 3, 2}, {1, 0, second, 1 - second, 1 - third, 1 - third}, 1e-15);
}

TEST(Attention, AnyHeadSizesAndLengths) {  // CASES 42, and the Tk of 41
  for (const Index d : {1, 3, 7, 63}) {
    for (const Index dv : {d, Index{12}, Index{4}}) {
      const Tensor q = draw(1, {2, 2, 3, d}), k = draw(2, {2, 2, 5, d}), v = draw(3, {2, 2, 5, dv});
      expect_near(attention_reference(q, k, v).output, {2, 2, 3, dv}, naive_attention(q, k, v), 1e-13);
    }
  }
  for (const Index length : {1, 127, 129}) {
    const Tensor q = draw(1, {1, 1, 2, 4}), k = draw(2, {1, 1, length, 4}), v = draw(3, {1, 1, length, 4});
    expect_near(attention_reference(q, k, v).output, {1, 1, 2, 4}, naive_attention(q, k, v), 1e-13);
  }
}

TEST(Attention, TheScaleCanBeGiven) {
  const Tensor q = draw(1, {1, 1, 3, 4}), k = draw(2, {1, 1, 3, 4}), v = draw(3, {1, 1, 3, 4});
  const Tensor expected = attention_reference(q * 2.0, k, v).output;
  expect_near(attention_reference(q, k, v, {.scale = 1}).output, {1, 1, 3, 4}, expected.to_doubles(), 1e-14);
}

TEST(Attention, AlignmentsOfUnequalLengths) {  // CASES 40
  const auto output = [](Index queries, Index keys, Align align) {
    const Tensor v = reshape(arange(1, static_cast<double>(keys) + 1, 1, DType::f64), Shape{1, 1, keys, 1});
    const Tensor q = zeros({1, 1, queries, 1}, DType::f64), k = draw(1, {1, 1, keys, 1});
    return attention_reference(q, k, v, {.mask = Mask::causal(align)}).output;
  };
  expect_near(output(2, 5, Align::top_left), {1, 1, 2, 1}, {1, 1.5}, 1e-15);
  expect_near(output(2, 5, Align::bottom_right), {1, 1, 2, 1}, {2.5, 3}, 1e-15);
  expect_exactly(output(5, 2, Align::bottom_right), {1, 1, 5, 1}, {0, 0, 0, 1, 1.5});
}

TEST(Attention, HeadsShareKeyHeadsInGroups) {  // CASES 45
  const auto per_head = [](const Shape& shape) {
    std::vector<double> values;
    for (Index i = 0; i < shape.elements(); ++i)
      values.push_back(static_cast<double>(i / (shape[2] * shape[3]) % shape[1]));
    return tensor(values, shape);
  };
  const Tensor two = attention_reference(draw(1, {1, 4, 3, 2}), draw(2, {1, 2, 3, 2}), per_head({1, 2, 3, 1})).output;
  expect_near(mean(two, {0, 2, 3}), {4}, {0, 0, 1, 1}, 1e-15);
  for (const auto& [heads, key_heads] : {std::pair<Index, Index>{12, 12}, {32, 8}, {28, 4}, {4, 1}}) {
    const Tensor q = draw(1, {2, heads, 3, 2}), k = draw(2, {2, key_heads, 4, 2}), v = draw(3, {2, key_heads, 4, 3});
    expect_near(attention_reference(q, k, v).output, {2, heads, 3, 3}, naive_attention(q, k, v), 1e-13);
  }
}

TEST(Attention, MemoryLayoutDoesNotMatter) {  // CASES 43
  const Shape shape{2, 2, 3, 4};
  const Tensor q = draw(1, shape), k = draw(2, shape), v = draw(3, shape), up = draw(4, shape);
  const AttentionOptions options{.mask = Mask::causal()};
  const Gradient expected = run(q, k, v, options, up);
  const auto turned = [](const Tensor& x, int bit) { return bit ? transpose(transpose(x, 1, 2).dense(), 1, 2) : x; };
  for (int bits = 0; bits < 16; ++bits) {
    const Gradient got =
        run(turned(q, bits & 1), turned(k, bits & 2), turned(v, bits & 4), options, turned(up, bits & 8));
    expect_near(got.output, shape, expected.output.to_doubles(), 1e-14);
    expect_near(got.dq, shape, expected.dq.to_doubles(), 1e-14);
    expect_near(got.dk, shape, expected.dk.to_doubles(), 1e-14);
    expect_near(got.dv, shape, expected.dv.to_doubles(), 1e-14);
  }
}

// ---- masks ----------------------------------------------------------------------------------------------------------

TEST(Attention, RowsWithoutKeysAreZero) {  // CASES 34, 35
  Buffer square(Shape{8, 8}, DType::boolean);
  for (Index i = 0; i < 64; ++i) square.data<bool>()[static_cast<std::size_t>(i)] = i / 8 < 4 && i % 8 < 4;
  Buffer all_but_last(Shape{6, 10}, DType::boolean);
  for (Index i = 0; i < 60; ++i) all_but_last.data<bool>()[static_cast<std::size_t>(i)] = i < 50;
  const auto zero_rows = [](const Tensor& keep, Index from) {
    const Index queries = keep.size(0), keys = keep.size(1);
    const Tensor q = draw(1, {1, 2, queries, 3}), k = draw(2, {1, 2, keys, 3}), v = draw(3, {1, 2, keys, 3});
    for (const bool create_graph : {false, true}) {
      const Gradient g = run(q, k, v, {.mask = Mask::keep(keep)}, draw(4, {1, 2, queries, 3}), create_graph);
      const auto zeros_from = [&](const Tensor& x) {
        for (const double value : slice(x, 2, from, queries).to_doubles()) EXPECT_EQ(value, 0);
      };
      zeros_from(g.output);
      zeros_from(g.dq);
      for (const Tensor& x : {g.dk, g.dv})
        for (const double value : x.to_doubles()) EXPECT_TRUE(std::isfinite(value));
    }
  };
  zero_rows(std::move(square), 4);
  zero_rows(std::move(all_but_last), 5);
}

TEST(Attention, ARowWithoutKeysLeavesParameterGradientsFinite) {  // CASES 33
  const Tensor x = draw(1, {2, 3, 1});
  const Tensor padding = boolean({{{{1, 1, 1}}}, {{{1, 0, 0}}}}), rows = boolean({{1, 0, 0}, {1, 1, 0}, {0, 1, 1}});
  for (const bool create_graph : {false, true}) {
    Tape tape;
    std::vector<Tensor> weights, heads;
    for (std::uint64_t i = 0; i < 3; ++i) {
      weights.push_back(tape.watch(draw(2 + i, {1, 1})));
      heads.push_back(reshape(linear(x, weights.back()), Shape{2, 1, 3, 1}));
    }
    const Mask mask = Mask::keep(padding) & Mask::keep(rows);
    const AttentionResult result = attention_reference(heads[0], heads[1], heads[2], {.mask = mask});
    EXPECT_EQ(result.output.at({1, 0, 2, 0}), 0);
    const Gradients g = tape.backward(sum(slice(result.output, 2, 0, 1)), {.create_graph = create_graph});
    for (const Tensor& weight : weights) EXPECT_TRUE(std::isfinite(g.of(weight).item()));
  }
}

TEST(Attention, WhatNoQueryMaySeeReachesNothing) {  // CASES 36
  const Tensor q = draw(1, {2, 2, 3, 4}), k = draw(2, {2, 2, 5, 4}), v = draw(3, {2, 2, 5, 4}),
               up = draw(4, {2, 2, 3, 4});
  const AttentionOptions options{.mask = Mask::padding({3, 5}) & Mask::window(0, 3, Align::top_left)};
  // Keys 3 and 4 of sequence 0 stand beyond its length.
  const Tensor hidden = boolean({{{{0}, {0}, {0}, {1}, {1}}}, {{{0}, {0}, {0}, {0}, {0}}}});
  for (const bool create_graph : {false, true}) {
    const Gradient expected = run(q, where(hidden, 0.0, k), where(hidden, 0.0, v), options, up, create_graph);
    for (const double planted : {nan, infinity, -infinity}) {
      const Gradient got = run(q, where(hidden, planted, k), where(hidden, planted, v), options, up, create_graph);
      expect_exactly(got.output, {2, 2, 3, 4}, expected.output.to_doubles());
      expect_exactly(got.dq, {2, 2, 3, 4}, expected.dq.to_doubles());
      expect_exactly(got.dk, {2, 2, 5, 4}, expected.dk.to_doubles());
      expect_exactly(got.dv, {2, 2, 5, 4}, expected.dv.to_doubles());
      for (const Tensor& x : {got.dk, got.dv})
        for (const double value : slice(slice(x, 0, 0, 1), 2, 3, 5).to_doubles()) EXPECT_EQ(value, 0);
    }
  }
}

TEST(Attention, AQueryWithoutKeysReachesNothing) {
  const Tensor q = draw(1, {1, 1, 4, 2}), k = draw(2, {1, 1, 2, 2}), v = draw(3, {1, 1, 2, 2}),
               up = draw(4, {1, 1, 4, 2});
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right)};
  const Tensor lonely = boolean({{1}, {1}, {0}, {0}});
  for (const bool create_graph : {false, true}) {
    const Gradient expected = run(where(lonely, 0.0, q), k, v, options, up, create_graph);
    const Gradient got = run(where(lonely, nan, q), k, v, options, up, create_graph);
    expect_exactly(got.output, {1, 1, 4, 2}, expected.output.to_doubles());
    expect_exactly(got.dq, {1, 1, 4, 2}, expected.dq.to_doubles());
    expect_exactly(got.dk, {1, 1, 2, 2}, expected.dk.to_doubles());
    for (const double value : slice(got.dq, 2, 0, 2).to_doubles()) EXPECT_EQ(value, 0);
  }
}

TEST(Attention, CausalityIsExact) {  // CASES 37
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Index length : {2, 17, 64}) {
      const Tensor x = draw(1, {2, 2, length, 8}, dtype), noise = draw(2, {2, 2, length, 8}, dtype);
      Buffer last(Shape{length, 1}, DType::boolean);
      for (Index i = 0; i < length; ++i) last.data<bool>()[static_cast<std::size_t>(i)] = i == length - 1;
      const Tensor changed = where(Tensor(std::move(last)), noise, x);
      const AttentionOptions options{.mask = Mask::causal()};
      const AttentionResult before = attention_reference(x, x, x, options);
      const AttentionResult after = attention_reference(changed, changed, changed, options);
      const auto earlier = [&](const Tensor& y) { return slice(y, 2, 0, length - 1); };
      expect_exactly(earlier(after.output), {2, 2, length - 1, 8}, earlier(before.output).to_doubles());
      EXPECT_NE(after.output.to_doubles(), before.output.to_doubles());
      for (Index i = 0; i < length; ++i)
        for (Index j = i + 1; j < length; ++j) ASSERT_EQ(before.weights.at({1, 1, i, j}), 0);
    }
  }
}

TEST(Attention, NoDerivativeReachesTheFuture) {
  constexpr Index length = 5;
  for (Index s = 0; s < length; ++s) {
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor x = tape.watch(draw(1, {1, 2, length, 3}));
      const Tensor y = attention_reference(x, x, x, {.mask = Mask::causal()}).output;
      const Tensor row = slice(y, 2, s, s + 1);
      const Tensor dx = tape.backward(row, draw(2, row.shape()), {.create_graph = create_graph}).of(x).detach();
      for (const double value : slice(dx, 2, s + 1, length).to_doubles()) EXPECT_EQ(value, 0);
      for (const double value : slice(dx, 2, 0, 1).to_doubles()) EXPECT_NE(value, 0);
    }
  }
}

RC_GTEST_PROP(AttentionProperty, WithoutMaskPermutedTokensGivePermutedOutputs, ()) {
  const Index length = *rc::gen::inRange<Index>(1, 9), heads = *rc::gen::inRange<Index>(1, 4);
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  std::vector<std::int32_t> order;
  for (Index i = 0; i < length; ++i) order.push_back(static_cast<std::int32_t>(i));
  for (Index i = length - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(*rc::gen::inRange<Index>(0, i + 1))]);
  // Tokens are rows: [T, H · D] permuted by their ids, then cut into heads.
  const Tensor tokens = draw(seed, {length, heads * 3});
  const Tensor places = tensor(order, Shape{length});
  const auto attend = [&](const Tensor& rows) {
    const Tensor x = permute(reshape(rows, Shape{1, length, heads, 3}), {0, 2, 1, 3});
    return reshape(permute(attention_reference(x, x, x).output, {0, 2, 1, 3}), Shape{length, heads * 3});
  };
  const std::vector<double> a = embedding(attend(tokens), places).to_doubles();
  const std::vector<double> b = attend(embedding(tokens, places)).to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) RC_ASSERT(std::abs(a[i] - b[i]) < 1e-13);
}

// ---- biases ---------------------------------------------------------------------------------------------------------

TEST(Attention, MaskAndBiasAreBothUsed) {  // CASES 39
  const Tensor q = draw(1, {2, 2, 4, 3}), k = draw(2, {2, 2, 4, 3}), v = draw(3, {2, 2, 4, 3}),
               bias = draw(4, {2, 4, 4});
  const Mask mask = Mask::causal();
  const Tensor keep = mask.keep_tensor({2, 2, 4, 4});
  const Tensor output = attention_reference(q, k, v, {.mask = mask, .bias = {bias}}).output;
  expect_near(output, {2, 2, 4, 3}, naive_attention(q, k, v, keep, bias), 1e-14);
}

TEST(Attention, BiasGradientIsSummedOverStretchedAxes) {  // CASES 44
  const Tensor q = draw(1, {2, 2, 3, 2}), k = draw(2, {2, 2, 4, 2}), v = draw(3, {2, 2, 4, 2}),
               up = draw(4, {2, 2, 3, 2});
  const Tensor bias = draw(5, {1, 1, 3, 4});
  const Mask mask = Mask::causal(Align::bottom_right);
  for (const bool create_graph : {false, true}) {
    Tape tape;
    const Tensor watched = tape.watch(bias);
    const AttentionResult result = attention_reference(q, k, v, {.mask = mask, .bias = {watched}});
    const std::vector<double> p = result.weights.to_doubles();
    std::vector<double> expected(12, 0.0);
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 2; ++h)
        for (Index i = 0; i < 3; ++i) {
          double dp[4] = {}, row = 0;
          for (Index j = 0; j < 4; ++j) {
            for (Index d = 0; d < 2; ++d) dp[j] += up.at({b, h, i, d}) * v.at({b, h, j, d});
            row += p[static_cast<std::size_t>(((b * 2 + h) * 3 + i) * 4 + j)] * dp[j];
          }
          for (Index j = 0; j < 4; ++j)
            expected[static_cast<std::size_t>(i * 4 + j)] +=
                p[static_cast<std::size_t>(((b * 2 + h) * 3 + i) * 4 + j)] * (dp[j] - row);
        }
    const Gradients g = tape.backward(result.output, up, {.create_graph = create_graph});
    expect_near(g.of(watched).detach(), {1, 1, 3, 4}, expected, 1e-14);
    EXPECT_EQ(g.of(watched).at({0, 0, 0, 2}), 0);
  }
}

// ---- empty sizes, gradients, errors ---------------------------------------------------------------------------------

TEST(Attention, EmptySizes) {  // CASES 32
  const auto shapes = [](Index batch, Index queries, Index keys, const Mask& mask) {
    const Tensor q = draw(1, {batch, 2, queries, 4}), k = draw(2, {batch, 2, keys, 4}),
                 v = draw(3, {batch, 2, keys, 3});
    const Gradient g = run(q, k, v, {.mask = mask}, ones({batch, 2, queries, 3}, DType::f64));
    expect_exactly(g.output, {batch, 2, queries, 3},
                   std::vector<double>(static_cast<std::size_t>(batch * 2 * queries * 3), 0.0));
    expect_exactly(g.dq, q.shape(), std::vector<double>(static_cast<std::size_t>(q.elements()), 0.0));
    expect_exactly(g.dk, k.shape(), std::vector<double>(static_cast<std::size_t>(k.elements()), 0.0));
    expect_exactly(g.dv, v.shape(), std::vector<double>(static_cast<std::size_t>(v.elements()), 0.0));
  };
  shapes(0, 3, 3, Mask::causal());
  shapes(0, 3, 3, Mask::padding(std::vector<Index>{}));
  shapes(1, 3, 0, Mask::all());
  shapes(1, 3, 0, Mask::causal(Align::bottom_right));
  shapes(2, 3, 0, Mask::padding({0, 0}));
  shapes(1, 0, 3, Mask::all());
  shapes(1, 0, 3, Mask::causal(Align::top_left));
}

TEST(Attention, PassesTheGradientCheckAtSecondOrder) {
  const auto check = [](const std::vector<Tensor>& inputs, const AttentionOptions& options, const std::string& label) {
    const auto f = [&](const std::vector<Tensor>& in) {
      AttentionOptions all = options;
      if (in.size() > 3) all.bias = {in[3]};
      const AttentionResult result = attention_reference(in[0], in[1], in[2], all);
      return std::vector<Tensor>{result.output, result.weights};
    };
    GradcheckOptions gradcheck_options;
    gradcheck_options.label = label;
    const GradcheckReport report = gradcheck(f, inputs, gradcheck_options);
    EXPECT_TRUE(report.passed) << report.failure;
  };
  const Tensor q = draw(1, {1, 2, 2, 2}), k = draw(2, {1, 2, 3, 2}), v = draw(3, {1, 2, 3, 1}), bias = draw(4, {2, 3});
  check({q, k, v}, {}, "no mask");
  check({q, k, v}, {.mask = Mask::causal(Align::bottom_right)}, "causal");
  check({q, k, v, bias}, {.mask = Mask::causal(Align::top_left)}, "causal with bias");
  check({q, slice(k, 1, 0, 1), slice(v, 1, 0, 1)}, {.mask = Mask::padding({2})}, "grouped, padded");
  const Mask dead = Mask::keep(boolean({{1, 1, 0}, {0, 0, 0}}));
  check({q, k, v, bias}, {.mask = dead, .scale = 0.3}, "a row without keys");
}

TEST(Attention, NamesWhatDoesNotFit) {
  const auto error = [](const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& options = {}) {
    return error_of([&] { attention_reference(zeros(q), zeros(k), zeros(v), options); });
  };
  EXPECT_EQ(error({2, 3}, {1, 1, 2, 3}, {1, 1, 2, 3}),
            "attention: q, k, v must be [B, H, T, D]; got q [2, 3], k [1, 1, 2, 3] and v [1, 1, 2, 3]");
  EXPECT_EQ(error({2, 1, 2, 3}, {1, 1, 2, 3}, {1, 1, 2, 3}),
            "attention: batches must agree; got q [2, 1, 2, 3], k [1, 1, 2, 3] and v [1, 1, 2, 3]");
  EXPECT_EQ(error({1, 2, 2, 3}, {1, 2, 2, 3}, {1, 1, 2, 3}),
            "attention: k and v must have the same heads; got k [1, 2, 2, 3] and v [1, 1, 2, 3]");
  EXPECT_EQ(error({1, 3, 2, 3}, {1, 2, 2, 3}, {1, 2, 2, 3}),
            "attention: the heads of q must be a multiple of those of k; got q [1, 3, 2, 3] and k [1, 2, 2, 3]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 4}, {1, 1, 2, 3}),
            "attention: q and k must have one head size D; got q [1, 1, 2, 3] and k [1, 1, 2, 4]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {1, 1, 4, 3}),
            "attention: k and v must have one length Tk; got k [1, 1, 2, 3] and v [1, 1, 4, 3]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {1, 1, 2, 3}, {.bias = {zeros({3, 2})}}),
            "attention: bias must broadcast to the scores [1, 1, 2, 2]; got [3, 2]");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 2, 3}, {1, 1, 2, 3}, {.bias = {zeros({2, 2}, DType::boolean)}}),
            "attention: q and bias must have one dtype; got f32 and bool; cast one of them");
  EXPECT_EQ(error({1, 1, 2, 3}, {1, 1, 5, 3}, {1, 1, 5, 3}, {.mask = Mask::causal()}),
            "mask: causal() and window() need Tq = Tk or an alignment; got Tq 2 and Tk 5; say Align::top_left or "
            "Align::bottom_right");
  EXPECT_EQ(error_of([] {
              attention_reference(Tensor(), zeros({1, 1, 1, 1}), zeros({1, 1, 1, 1}));
            }),
            "attention: q must hold a value; got an empty handle; assign a tensor to it first");
}

// CASES 38. Neither stands for the other: a tensor is no Mask, and a mask no Bias. See also ../compile_fail.
static_assert(!std::is_constructible_v<Mask, Tensor>);
static_assert(!std::is_convertible_v<Tensor, Bias>);
static_assert(!std::is_constructible_v<Tensor, Mask>);
static_assert(!std::is_constructible_v<Bias, Mask>);

}  // namespace
}  // namespace capstan::test
