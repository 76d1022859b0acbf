// A sequence continued from a cache equals the whole sequence read at once, however it is split (CASES 48).
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include "support/expect.h"

namespace capstan::nn {
namespace {

using test::error_of;

Tensor rows(const Tensor& x, Index start, Index stop) { return slice(x, 1, start, stop); }

void expect_same(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

Gpt gpt(DType dtype) {
  Init init{.seed = 3, .dtype = dtype};
  Gpt made(init, {.vocab = 11, .context = 7, .width = 8, .heads = 2, .blocks = 2});
  for_each_tensor(made, [](Tensor& x) { x = scale(x, 10); });  // far from the uniform predictions of the start
  return made;
}

const Tensor& ids() {
  static const Tensor made = tensor({{3, 1, 4, 1, 5, 9, 2}, {6, 5, 3, 5, 8, 9, 7}}, DType::i32);
  return made;
}

TEST(Cache, LogitsStepByStepEqualTheWholeForEverySplitOfThePrompt) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Gpt model = gpt(dtype);
    const Tensor whole = model(ids());
    for (Index prompt = 1; prompt <= 7; ++prompt) {
      SCOPED_TRACE(prompt);
      ModelCache cache;
      const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
      expect_same(model(rows(ids(), 0, prompt), cache), rows(whole, 0, prompt), tolerance);
      for (Index t = prompt; t < 7; ++t)
        expect_same(model(rows(ids(), t, t + 1), cache), rows(whole, t, t + 1), tolerance);
      EXPECT_EQ(cache.length, 7);
    }
  }
}

TEST(Cache, PiecesOfAnyLengthContinueRotaryGroupedAttention) {
  for (const Rotary rotary : {Rotary::none, Rotary::half_split, Rotary::adjacent_pairs}) {
    Init init{.seed = 5, .dtype = DType::f64};
    const MultiHeadAttention attention(init, {.width = 8, .heads = 4, .kv_heads = 2, .rotary = rotary});
    const Tensor x = normal({.seed = 6}, {2, 6, 8}, 0, 1, DType::f64);
    const AttentionResult whole = attention.attend(x, x, Mask::causal());
    KeyValueCache cache;
    expect_same(attention.attend(rows(x, 0, 2), cache).output, rows(whole.output, 0, 2), 1e-12);
    const AttentionResult rest = attention.attend(rows(x, 2, 6), cache);
    expect_same(rest.output, rows(whole.output, 2, 6), 1e-12);
    expect_same(rest.weights, slice(whole.weights, 2, 2, 6), 1e-12);
    EXPECT_EQ(cache.keys.shape(), Shape({2, 2, 6, 2}));
  }
}

TEST(Cache, ACopyIsAnotherContinuation) {
  const Gpt model = gpt(DType::f64);
  ModelCache cache;
  model(rows(ids(), 0, 3), cache);
  ModelCache other = cache;
  model(rows(ids(), 4, 6), other);
  expect_same(model(rows(ids(), 3, 7), cache), rows(model(ids()), 3, 7), 1e-12);
  EXPECT_EQ(other.length, 5);
}

TEST(Cache, StaysAsItWasWhenAStepIsRefused) {
  const Gpt model = gpt(DType::f64);
  ModelCache cache;
  model(rows(ids(), 0, 5), cache);
  EXPECT_EQ(
      error_of([&] { model(rows(ids(), 0, 3), cache); }),
      "Gpt: a sequence must have at most 7 tokens, the context; got 8; pass its last tokens or raise Config::context");
  EXPECT_EQ(
      error_of([&] { model(tensor({{1}}, DType::i32), cache); }),
      "KeyValueCache: what follows must be [B, H, T, D] like the keys held, [2, 2, 5, 4]; got [1, 2, 1, 4]; start with "
      "an empty cache");
  expect_same(model(rows(ids(), 5, 7), cache), rows(model(ids()), 5, 7), 1e-12);
}

TEST(Cache, AModelWithoutBlocksCountsPositionsToo) {
  Init init{.seed = 3, .dtype = DType::f64};
  const Gpt model(init, {.vocab = 11, .context = 7, .width = 8, .heads = 2, .blocks = 0});
  ModelCache cache;
  model(rows(ids(), 0, 3), cache);
  expect_same(model(rows(ids(), 3, 7), cache), rows(model(ids()), 3, 7), 1e-12);
}

}  // namespace
}  // namespace capstan::nn
