// Tests of generate.h: greedy and drawn tokens, the sliding window, keys, errors. Against reference tokens:
// golden_gpt2_test.cpp.
#include <capstan/nn/nn.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan::nn {
namespace {

using test::error_of;
using ::testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

constexpr double inf = std::numeric_limits<double>::infinity();

Gpt model() {
  Init init{.seed = 2};
  Gpt made(init, {.vocab = 13, .context = 5, .width = 8, .heads = 2, .blocks = 1});
  for_each_tensor(made, [](Tensor& x) { x = scale(x, 20); });  // far from the uniform predictions of the start
  return made;
}

/// The tokens after `tokens` by their definition.
Ids naive_greedy(const Gpt& gpt, Ids tokens, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t begin = tokens.size() > 5 ? tokens.size() - 5 : 0;
    const Ids window(tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end());
    const auto length = static_cast<Index>(window.size());
    const Tensor logits = gpt(tensor(window, {1, length}));
    std::int32_t best = 0;
    for (std::int32_t id = 1; id < 13; ++id)
      if (logits.at({0, length - 1, id}) > logits.at({0, length - 1, best})) best = id;
    tokens.push_back(best);
  }
  return tokens;
}

// ---- sample ---------------------------------------------------------------------------------------------------------

TEST(Sample, TakesTheLikeliestAtTemperatureZero) {
  EXPECT_EQ(sample(tensor({1, 3, 2}), 0, 0.99), 1);
  EXPECT_EQ(sample(tensor({1, 3, 3}), 0, 0.99), 1);  // the smaller id of equals
  EXPECT_EQ(sample(tensor({-inf, -1e30, -inf}), 0, 0), 1);
}

TEST(Sample, InvertsTheCumulativeSum) {
  const Tensor logits = log(tensor({0.2, 0.5, 0.3}, DType::f64));
  for (const auto& [u, id] : {std::pair{0.0, 0}, {0.19, 0}, {0.21, 1}, {0.69, 1}, {0.71, 2}, {0.999999, 2}})
    EXPECT_EQ(sample(logits, 1, u), id) << u;
  EXPECT_EQ(sample(tensor({0, 0}), 1, 0.5), 1);  // id 0 has [0, 0.5)
  const Tensor shifted = logits + 1000;
  for (const double u : {0.1, 0.4, 0.9}) EXPECT_EQ(sample(shifted, 1, u), sample(logits, 1, u));
}

TEST(Sample, SharpensAsItCools) {
  const Tensor logits = log(tensor({0.2, 0.5, 0.3}, DType::f64));
  // Temperature 1/2 squares the probabilities: 4 : 25 : 9.
  EXPECT_EQ(sample(logits, 0.5, 3.9 / 38), 0);
  EXPECT_EQ(sample(logits, 0.5, 4.1 / 38), 1);
  EXPECT_EQ(sample(logits, 0.5, 28.9 / 38), 1);
  EXPECT_EQ(sample(logits, 0.5, 29.1 / 38), 2);
  for (const double u : {0.0, 0.5, 0.999}) EXPECT_EQ(sample(logits, 1e-300, u), 1);
}

TEST(Sample, NeverDrawsWhatIsImpossible) {
  const Tensor logits = tensor({-inf, 0, -inf, 0, -inf}, DType::f64);
  for (const double u : {0.0, 0.25, 0.499}) EXPECT_EQ(sample(logits, 1, u), 1);
  for (const double u : {0.501, 0.75, std::nextafter(1.0, 0.0)}) EXPECT_EQ(sample(logits, 1, u), 3);
}

TEST(Sample, Errors) {
  EXPECT_EQ(error_of([] { sample(ones({2, 3}), 1, 0); }), "sample: logits must be [V] with V at least 1; got [2, 3]");
  EXPECT_EQ(error_of([] { sample(ones({0}), 1, 0); }), "sample: logits must be [V] with V at least 1; got [0]");
  EXPECT_EQ(error_of([] { sample(ones({2}), -1, 0); }),
            "sample: the temperature must be finite and not negative; got -1");
  EXPECT_EQ(error_of([] { sample(ones({2}), inf, 0); }),
            "sample: the temperature must be finite and not negative; got inf");
  EXPECT_EQ(error_of([] { sample(tensor({-inf, -inf}), 1, 0); }), "sample: the largest logit must be finite; got -inf");
  EXPECT_EQ(error_of([] { sample(tensor({0, inf}), 0, 0); }), "sample: the largest logit must be finite; got inf");
  for (const double temperature : {0.0, 1.0})
    for (const auto& logits :
         {tensor({std::nan(""), 1, 2}), tensor({1, std::nan(""), 2}), tensor({1, 2, std::nan("")})})
      EXPECT_EQ(error_of([&] { sample(logits, temperature, 0.5); }), "sample: logits must not be NaN; got NaN among 3");
}

// ---- generate -------------------------------------------------------------------------------------------------------

TEST(Generate, IsGreedyWithoutATemperature) {
  const Gpt gpt = model();
  for (const Ids& prompt : {Ids{3}, Ids{1, 2, 3}, Ids{12, 0, 12, 0, 12}})
    EXPECT_EQ(generate(gpt, prompt, {.count = 9}), naive_greedy(gpt, prompt, 9));  // slides beyond the context of 5
  EXPECT_THAT(generate(gpt, {1, 2}, {.count = 0}), ElementsAre(1, 2));
}

TEST(Generate, ReadsNoMoreThanItsContext) {
  const Gpt gpt = model();
  const Ids longer = generate(gpt, {9, 9, 9, 1, 2, 3, 4, 5}, {.count = 4});
  const Ids last = generate(gpt, {1, 2, 3, 4, 5}, {.count = 4});
  EXPECT_EQ(Ids(longer.begin() + 8, longer.end()), Ids(last.begin() + 5, last.end()));
}

TEST(Generate, DrawsByItsKeyAlone) {
  const Gpt gpt = model();
  const auto drawn = [&](Key key, double temperature) {
    return generate(gpt, {4}, {.count = 20, .temperature = temperature, .key = key});
  };
  EXPECT_EQ(drawn({1, 2}, 10), drawn({1, 2}, 10));
  EXPECT_NE(drawn({1, 2}, 10), drawn({1, 3}, 10));
  EXPECT_NE(drawn({1, 2}, 10), drawn({2, 2}, 10));
  EXPECT_EQ(drawn({1, 2}, 1e-6), generate(gpt, {4}, {.count = 20}));
  // Token i depends on number i: fewer tokens are a beginning of more.
  const Ids few = generate(gpt, {4}, {.count = 7, .temperature = 10, .key = {1, 2}});
  const Ids more = drawn({1, 2}, 10);
  EXPECT_EQ(Ids(more.begin(), more.begin() + 8), few);
}

TEST(Generate, DrawsFromTheSoftmax) {
  const Gpt gpt = model();
  const Tensor logits = reshape(slice(gpt(tensor({{4, 2}}, DType::i32)), 1, 1, 2), Shape{13});
  std::array<double, 13> expected{}, counted{};
  double total = 0;
  for (Index id = 0; id < 13; ++id) total += expected[static_cast<std::size_t>(id)] = std::exp(logits.at({id}) / 2);
  constexpr int draws = 2000;
  for (int i = 0; i < draws; ++i) ++counted[static_cast<std::size_t>(sample(logits, 2, (i + 0.5) / draws))];
  for (std::size_t id = 0; id < 13; ++id) EXPECT_NEAR(counted[id] / draws, expected[id] / total, 1.01 / draws) << id;
}

TEST(Generate, Errors) {
  const Gpt gpt = model();
  EXPECT_EQ(error_of([&] { generate(gpt, {}, {}); }), "generate: the prompt must have at least one token; got none");
  EXPECT_EQ(error_of([&] { generate(gpt, {1}, {.count = -1}); }), "generate: count must not be negative; got -1");
  EXPECT_EQ(error_of([&] { generate(gpt, {1}, {.temperature = -0.5}); }),
            "sample: the temperature must be finite and not negative; got -0.5");
  EXPECT_EQ(error_of([&] { generate(gpt, {1, 13}, {}); }), "embedding: ids must be in [0, 13); got 13 at [0, 1]");
}

}  // namespace
}  // namespace capstan::nn
