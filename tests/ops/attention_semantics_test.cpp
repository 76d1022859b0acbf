// Every promise of attention's masks, biases, groups and dropout against the definition, value and gradient, one by one
// and together. See also attention_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

#include <cmath>
#include <limits>

#include "support/attention_masks.h"
#include "support/expect.h"
#include "support/naive_attention.h"
#include "support/states.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Dropout drop{.p = 0.4, .key = {.seed = 6, .stream = 1}};

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

TEST(AttentionSemantics, EveryMaskIsTheDefinition) {
  for (const auto& [queries, keys] : sizes) {
    const Tensor q = draw(1, {2, 4, queries, 3}), k = draw(2, {2, 2, keys, 3}), v = draw(3, {2, 2, keys, 5}),
                 bias = draw(4, {4, queries, keys});
    const Shape scores{2, 4, queries, keys};
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(scores));
      const Tensor keep = mask.keep_tensor(scores);
      expect_near(attention_reference(q, k, v, {.mask = mask}).output, {2, 4, queries, 5},
                  naive_attention(q, k, v, keep), 1e-13);
      expect_near(attention_reference(q, k, v, {.mask = mask, .bias = {bias}, .scale = 0.7}).output, {2, 4, queries, 5},
                  naive_attention(q, k, v, keep, bias, 0.7), 1e-13);
    }
  }
}

TEST(AttentionSemantics, EveryMaskKeepsItsPromisesOfZero) {
  for (const auto& [queries, keys] : sizes) {
    const Tensor q = draw(1, {2, 4, queries, 3}), k = draw(2, {2, 2, keys, 3}), v = draw(3, {2, 2, keys, 5}),
                 up = draw(5, {2, 4, queries, 5}), up_weights = draw(6, {2, 4, queries, keys});
    const Shape scores{2, 4, queries, keys};
    for (const auto& [name, mask] : masks(queries, keys)) {
      SCOPED_TRACE(name + " " + to_string(scores));
      const Tensor keep = broadcast_to(mask.keep_tensor(scores), scores);
      for (const bool create_graph : {false, true}) {
        Tape tape;
        const Tensor wq = tape.watch(q), wk = tape.watch(k), wv = tape.watch(v);
        const Tensor bias = tape.watch(draw(4, {4, queries, keys}));
        const AttentionResult result = attention_reference(wq, wk, wv, {.mask = mask, .bias = {bias}, .dropout = drop});
        const Gradients g =
            tape.backward({{result.output, up}, {result.weights, up_weights}}, {.create_graph = create_graph});
        const Tensor dq = g.of(wq), dk = g.of(wk), dv = g.of(wv), dbias = g.of(bias);
        for (const Tensor& gradient : {dq, dk, dv, dbias})
          for (const double value : gradient.to_doubles()) ASSERT_TRUE(std::isfinite(value));
        for (Index b = 0; b < 2; ++b)
          for (Index h = 0; h < 4; ++h)
            for (Index i = 0; i < queries; ++i) {
              bool alive = false;
              for (Index j = 0; j < keys; ++j) {
                const bool may = keep.at({b, h, i, j}) != 0;
                alive = alive || may;
                if (!may) { EXPECT_EQ(result.weights.at({b, h, i, j}), 0); }
              }
              if (alive) continue;
              for (Index d = 0; d < 5; ++d) EXPECT_EQ(result.output.at({b, h, i, d}), 0);
              for (Index d = 0; d < 3; ++d) EXPECT_EQ(dq.at({b, h, i, d}), 0);
            }
        for (Index b = 0; b < 2; ++b)
          for (Index group = 0; group < 2; ++group)
            for (Index j = 0; j < keys; ++j) {
              bool seen = false;
              for (Index h = 2 * group; h < 2 * group + 2; ++h)
                for (Index i = 0; i < queries; ++i) seen = seen || keep.at({b, h, i, j}) != 0;
              if (seen) continue;
              for (Index d = 0; d < 3; ++d) EXPECT_EQ(dk.at({b, group, j, d}), 0);
              for (Index d = 0; d < 5; ++d) EXPECT_EQ(dv.at({b, group, j, d}), 0);
            }
        for (Index h = 0; h < 4; ++h)
          for (Index i = 0; i < queries; ++i)
            for (Index j = 0; j < keys; ++j)
              if (keep.at({0, h, i, j}) == 0 && keep.at({1, h, i, j}) == 0) { EXPECT_EQ(dbias.at({h, i, j}), 0); }
      }
    }
  }
}

TEST(AttentionSemantics, EveryMaskPassesTheGradientCheckAtSecondOrder) {
  const Tensor q = draw(1, {2, 4, 2, 1}), k = draw(2, {2, 2, 3, 1}), v = draw(3, {2, 2, 3, 1}),
               bias = draw(4, {4, 2, 3});
  for (const auto& [name, mask] : masks(2, 3)) {
    GradcheckOptions options;
    options.label = name;
    const GradcheckReport report = gradcheck(
        [&, &allowed = mask](const std::vector<Tensor>& in) {
          const AttentionResult result =
              attention_reference(in[0], in[1], in[2], {.mask = allowed, .bias = {in[3]}, .dropout = drop});
          return std::vector<Tensor>{result.output, result.weights};
        },
        {q, k, v, bias}, options);
    EXPECT_TRUE(report.passed) << report.failure;
  }
}

TEST(AttentionSemantics, EveryLengthIsTheDefinition) {  // CASES 41
  std::vector<Index> lengths;
  for (Index length = 1; length <= 130; ++length) lengths.push_back(length);
  lengths.push_back(192);
  for (const Index length : lengths) {
    const Tensor q = draw(1, {1, 1, length, 2}), k = draw(2, {1, 1, length, 2}), v = draw(3, {1, 1, length, 3});
    SCOPED_TRACE(length);
    expect_near(attention_reference(q, k, v, {.mask = Mask::causal()}).output, {1, 1, length, 3},
                naive_attention(q, k, v, Mask::causal().keep_tensor({1, 1, length, length})), 1e-13);
  }
  for (const Index keys : {1, 127, 129})
    for (const Align align : {Align::top_left, Align::bottom_right}) {
      const Tensor q = draw(1, {1, 2, 64, 2}), k = draw(2, {1, 2, keys, 2}), v = draw(3, {1, 2, keys, 3});
      const Mask mask = Mask::causal(align);
      expect_near(attention_reference(q, k, v, {.mask = mask}).output, {1, 2, 64, 3},
                  naive_attention(q, k, v, mask.keep_tensor({1, 2, 64, keys})), 1e-13);
    }
}

// ---- groups of heads ------------------------------------------------------------------------------------------------

TEST(AttentionSemantics, GradientsOfSharedHeadsAreSumsOverTheirGroup) {  // CASES 45
  for (const auto& pair : {std::pair<Index, Index>{12, 12}, {32, 8}, {28, 4}, {4, 1}}) {
    const Index heads = pair.first, key_heads = pair.second, group = heads / key_heads;
    const Tensor q = draw(1, {2, heads, 3, 2}), k = draw(2, {2, key_heads, 4, 2}), v = draw(3, {2, key_heads, 4, 3}),
                 up = draw(4, {2, heads, 3, 3});
    const AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::keep(coin(7, {heads, 3, 4}))};
    // The same with a copy of each key head for each query head: [2, Hkv, 1, T, D] → [2, Hkv, group, T, D] → [2, H, T, D].
    const auto copied = [&](const Tensor& x) {
      const Index T = x.size(2), D = x.size(3);
      return reshape(broadcast_to(reshape(x, Shape{2, key_heads, 1, T, D}), Shape{2, key_heads, group, T, D}),
                     Shape{2, heads, T, D});
    };
    Tape tape;
    const Tensor wq = tape.watch(q), wk = tape.watch(k), wv = tape.watch(v);
    const Tensor shared = attention_reference(wq, wk, wv, options).output;
    const Tensor spread = attention_reference(wq, copied(wk), copied(wv), options).output;
    expect_near(shared, {2, heads, 3, 3}, spread.to_doubles(), 1e-14);
    const Gradients a = tape.backward(shared, up, {.keep = true}), b = tape.backward(spread, up);
    for (const Tensor& x : {wq, wk, wv}) expect_near(a.of(x), x.shape(), b.of(x).to_doubles(), 1e-13);
  }
}

// ---- what is masked -------------------------------------------------------------------------------------------------

TEST(AttentionSemantics, BiasesOfForbiddenPairsReachNothing) {
  const Tensor q = draw(1, {2, 2, 4, 3}), k = draw(2, {2, 2, 4, 3}), v = draw(3, {2, 2, 4, 3}), bias = draw(4, {4, 4}),
               up = draw(5, {2, 2, 4, 3});
  const Mask mask = Mask::causal() & Mask::keep(tensor({{1}, {0}, {1}, {1}}, DType::boolean));
  const Tensor keep = slice(slice(mask.keep_tensor({2, 2, 4, 4}), 0, 0, 1), 1, 0, 1);
  const auto run = [&](double planted, bool create_graph) {
    Tape tape;
    const Tensor wq = tape.watch(q), wb = tape.watch(where(reshape(keep, Shape{4, 4}), bias, planted));
    const Tensor output = attention_reference(wq, k, v, {.mask = mask, .bias = {wb}}).output;
    const Gradients g = tape.backward(output, up, {.create_graph = create_graph});
    return std::vector<Tensor>{output.detach(), g.of(wq).detach(), g.of(wb).detach()};
  };
  for (const bool create_graph : {false, true}) {
    const std::vector<Tensor> expected = run(0, create_graph);
    for (const double planted : {nan, infinity, -infinity}) {
      const std::vector<Tensor> got = run(planted, create_graph);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i << " " << planted;
    }
  }
}

TEST(AttentionSemantics, WhatNoQueryOfTheGroupMaySeeReachesNothing) {  // CASES 36, grouped heads
  const Tensor q = draw(1, {1, 4, 3, 2}), k = draw(2, {1, 2, 5, 2}), v = draw(3, {1, 2, 5, 2}),
               up = draw(4, {1, 4, 3, 2});
  // Key 1 is hidden from heads 0 and 1 (the first group), key 4 from all.
  Buffer keep(Shape{4, 1, 5}, DType::boolean);
  for (Index i = 0; i < 20; ++i)
    keep.data<bool>()[static_cast<std::size_t>(i)] = i % 5 != 4 && !(i / 5 < 2 && i % 5 == 1);
  const Mask mask = Mask::keep(Tensor(std::move(keep)));
  const Tensor hidden = tensor({{{{0}, {1}, {0}, {0}, {1}}, {{0}, {0}, {0}, {0}, {1}}}}, DType::boolean);
  const auto run = [&](double planted, bool create_graph) {
    Tape tape;
    const Tensor wq = tape.watch(q), wk = tape.watch(where(hidden, planted, k)),
                 wv = tape.watch(where(hidden, planted, v));
    const Tensor output = attention_reference(wq, wk, wv, {.mask = mask, .dropout = drop}).output;
    const Gradients g = tape.backward(output, up, {.create_graph = create_graph});
    return std::vector<Tensor>{output.detach(), g.of(wq).detach(), g.of(wk).detach(), g.of(wv).detach()};
  };
  for (const bool create_graph : {false, true}) {
    const std::vector<Tensor> expected = run(0, create_graph);
    for (std::size_t i = 2; i < 4; ++i)
      for (const double value : where(hidden, expected[i], 0.0).to_doubles()) EXPECT_EQ(value, 0);
    for (const double planted : {nan, infinity, -infinity}) {
      const std::vector<Tensor> got = run(planted, create_graph);
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i << " " << planted;
    }
  }
}

// ---- dropout --------------------------------------------------------------------------------------------------------

TEST(AttentionDropout, WithoutAKeyThereIsNone) {  // CASES 46
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor q = draw(1, {2, 2, 5, 3}, dtype), k = draw(2, {2, 2, 5, 3}, dtype), v = draw(3, {2, 2, 5, 3}, dtype);
    const auto output = [&](std::optional<Dropout> dropped) {
      return attention_reference(q, k, v, {.mask = Mask::causal(), .dropout = dropped}).output;
    };
    EXPECT_TRUE(same_bits(output(std::nullopt), output(std::nullopt)));
    EXPECT_TRUE(same_bits(output(Dropout{.p = 0, .key = drop.key}), output(std::nullopt)));
    EXPECT_TRUE(same_bits(output(drop), output(drop)));
    EXPECT_FALSE(same_bits(output(drop), output(std::nullopt)));
    EXPECT_FALSE(same_bits(output(drop), output(Dropout{.p = drop.p, .key = drop.key.derive(1)})));
  }
}

TEST(AttentionDropout, DropsWeightsAfterSoftmax) {
  const Tensor q = draw(1, {2, 4, 5, 3}), k = draw(2, {2, 2, 6, 3}), v = draw(3, {2, 2, 6, 3});
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right), .dropout = drop};
  const AttentionResult dropped = attention_reference(q, k, v, options);
  EXPECT_TRUE(same_bits(dropped.weights, attention_reference(q, k, v, {.mask = options.mask}).weights));
  const Tensor weights = dropout(dropped.weights, drop.p, drop.key);
  EXPECT_NE(sum(weights).item(), sum(dropped.weights).item());
  for (Index h = 0; h < 4; ++h) {
    const Tensor own = slice(v, 1, h / 2, h / 2 + 1), row = slice(weights, 1, h, h + 1);
    expect_near(slice(dropped.output, 1, h, h + 1), {2, 1, 5, 3}, matmul(row, own).to_doubles(), 1e-14);
  }
}

TEST(AttentionDropout, DropsTheSameInF32AndF64) {
  const auto dropped = [](DType dtype) {
    // Equal scores and values of 1: an output is the share of weights that were kept.
    const Tensor q = zeros({1, 2, 20, 1}, dtype), v = ones({1, 2, 30, 1}, dtype);
    return attention_reference(q, zeros({1, 2, 30, 1}, dtype), v, {.dropout = drop}).output.to_doubles();
  };
  const std::vector<double> narrow = dropped(DType::f32), wide = dropped(DType::f64);
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(narrow[i], wide[i], 1e-6);
}

TEST(AttentionDropout, RefusesWhatIsNoProbability) {
  const Tensor x = zeros({1, 1, 2, 2});
  EXPECT_EQ(error_of([&] { attention_reference(x, x, x, {.dropout = Dropout{.p = 1, .key = drop.key}}); }),
            "dropout: p must be in [0, 1); got 1");
}

}  // namespace
}  // namespace capstan::test
