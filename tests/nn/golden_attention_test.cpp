// The attention modules against the reference results of tests/golden: all cases of multihead_attention.json, and the
// chain from tokens to gradients of seed_attention.json.
#include <capstan/nn/nn.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include <array>

#include "support/golden.h"

namespace capstan::nn {
namespace {

using test::bound_for;
using test::golden_cases;
using test::golden_difference;
using test::GoldenCase;
using test::in_dtype;

class GoldenAttention : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  Tensor input(const GoldenCase& golden, const std::string& name) const {
    return in_dtype(golden.inputs.at(name), dtype());
  }
  void expect(const GoldenCase& golden, const std::string& what, const Tensor& got, const Tensor& want) const {
    EXPECT_EQ(golden_difference(golden.name + " " + what, got, want, bound_for(dtype())), "");
  }
  /// The gradient of the keys' bias: it adds one number to all scores of a query, which softmax takes away again. So the
  /// gradient is 0, and what both sides have is rounding.
  void expect_nothing(const GoldenCase& golden, const Tensor& got, const Tensor& want) const {
    EXPECT_EQ(to_string(got.shape()), to_string(want.shape())) << golden.name;
    for (const double rounding : got.to_doubles()) EXPECT_NEAR(rounding, 0, dtype() == DType::f64 ? 1e-15 : 1e-6);
    for (const double rounding : want.to_doubles()) EXPECT_NEAR(rounding, 0, 1e-15);
  }
};

/// Our fields and the reference's names.
constexpr std::array<std::pair<const char*, const char*>, 8> names = {{{"query.weight", "w_q"},
                                                                       {"query.bias", "b_q"},
                                                                       {"key.weight", "w_k"},
                                                                       {"key.bias", "b_k"},
                                                                       {"value.weight", "w_v"},
                                                                       {"value.bias", "b_v"},
                                                                       {"project.weight", "w_o"},
                                                                       {"project.bias", "b_o"}}};

Mask mask_of(const GoldenCase& golden) {
  Mask mask = golden.options["causal"].get<bool>() ? Mask::causal() : Mask::all();
  if (!golden.inputs.contains("key_allowed")) return mask;
  const Tensor& allowed = golden.inputs.at("key_allowed");
  return mask & Mask::keep(reshape(allowed, Shape{allowed.shape()[0], 1, 1, allowed.shape()[1]}));
}

TEST_P(GoldenAttention, MultiHead) {
  const std::vector<GoldenCase> cases = golden_cases("multihead_attention");
  ASSERT_EQ(cases.size(), 13U);
  for (const GoldenCase& golden : cases) {
    const bool self = golden.options["self_attention"];
    Init init{.dtype = dtype()};
    MultiHeadAttention module(init, {.width = golden.inputs.at("w_o").shape()[0],
                                     .heads = golden.options["heads"],
                                     .memory_width = golden.inputs.at("w_k").shape()[1],
                                     .value_width = golden.inputs.at("w_v").shape()[1],
                                     .bias = golden.options["bias"]});
    StateDict state;
    for (const auto& [ours, theirs] : names)
      if (golden.inputs.contains(theirs)) state[ours] = input(golden, theirs);
    load_state(module, state);

    Tape tape;
    const MultiHeadAttention watched = watch(tape, module);
    std::map<std::string, Tensor> inputs;
    const std::vector<std::string> input_names =
        self ? std::vector<std::string>{"x"} : std::vector<std::string>{"query", "key", "value"};
    for (const std::string& name : input_names) inputs[name] = tape.watch(input(golden, name));
    const AttentionResult result =
        self ? watched.attend(inputs["x"], inputs["x"], mask_of(golden))
             : watched.attend(inputs["query"], inputs["key"], inputs["value"], mask_of(golden));
    expect(golden, "out", result.output, golden.outputs.at("out"));
    expect(golden, "weights", result.weights, golden.outputs.at("weights"));
    expect(golden, "mean_weights", mean(result.weights, 1), golden.outputs.at("mean_weights"));
    int rows_without_keys = 0;
    for (const double total : sum(result.weights, -1).to_doubles()) rows_without_keys += total == 0;
    EXPECT_EQ(rows_without_keys, golden.options["rows_without_keys"].get<int>()) << golden.name;

    std::vector<Root> roots = {{result.output, in_dtype(golden.upstream.at("out"), dtype())}};
    if (golden.upstream.contains("weights"))
      roots.push_back({result.weights, in_dtype(golden.upstream.at("weights"), dtype())});
    const Gradients gradients = tape.backward(roots);
    const StateDict of_module = state_dict(gradients.of(watched));
    std::size_t compared = 0;
    for (const auto& [ours, theirs] : names)
      if (golden.gradients.contains(theirs)) {
        if (std::string(theirs) == "b_k")
          expect_nothing(golden, of_module.at(ours), golden.gradients.at(theirs));
        else
          expect(golden, std::string("gradient of ") + theirs, of_module.at(ours), golden.gradients.at(theirs));
        ++compared;
      }
    for (const auto& [name, x] : inputs) {
      expect(golden, "gradient of " + name, gradients.of(x), golden.gradients.at(name));
      ++compared;
    }
    EXPECT_EQ(compared, golden.gradients.size()) << golden.name;
  }
}

struct TokenChain {
  Embedding embedding;
  SingleHeadAttention head;
  static void fields(auto& self, auto& f) {
    f("embedding", self.embedding);
    f("head", self.head);
  }
};

TEST_P(GoldenAttention, FromTokensToGradients) {
  int run = 0;
  for (const GoldenCase& golden : golden_cases("seed_attention")) {
    if (golden.name != "token_chain") continue;  // the others are tests of ops
    ++run;
    Init init{.dtype = dtype()};
    TokenChain chain{Embedding(init, {.rows = 6, .width = 4}),
                     SingleHeadAttention(init, {.d_model = 4, .d_k = 2, .d_v = 2, .bias = false})};
    load_state(chain, {{"embedding.table", input(golden, "embedding")},  // projections are [in, out] there
                       {"head.query.weight", transpose(input(golden, "w_q"))},
                       {"head.key.weight", transpose(input(golden, "w_k"))},
                       {"head.value.weight", transpose(input(golden, "w_v"))}});
    const Tensor tokens = reshape(golden.inputs.at("tokens"), Shape{1, 3});
    Tape tape;
    const TokenChain watched = watch(tape, chain);
    const Tensor x = watched.embedding(tokens);
    const AttentionResult result = watched.head.attend(x, x, Mask::causal());
    const Tensor output = reshape(result.output, Shape{3, 2});
    expect(golden, "x", reshape(x, Shape{3, 4}), golden.outputs.at("x"));
    expect(golden, "q", reshape(watched.head.query(x), Shape{3, 2}), golden.outputs.at("q"));
    expect(golden, "k", reshape(watched.head.key(x), Shape{3, 2}), golden.outputs.at("k"));
    expect(golden, "v", reshape(watched.head.value(x), Shape{3, 2}), golden.outputs.at("v"));
    expect(golden, "weights", reshape(result.weights, Shape{3, 3}), golden.outputs.at("weights"));
    expect(golden, "out", output, golden.outputs.at("out"));
    const StateDict gradients =
        state_dict(tape.backward(output, in_dtype(golden.upstream.at("out"), dtype())).of(watched));
    expect(golden, "gradient of embedding", gradients.at("embedding.table"), golden.gradients.at("embedding"));
    for (const auto& [ours, theirs] : {std::pair{"query", "w_q"}, std::pair{"key", "w_k"}, std::pair{"value", "w_v"}})
      expect(golden, std::string("gradient of ") + theirs,
             transpose(gradients.at(std::string("head.") + ours + ".weight")), golden.gradients.at(theirs));
  }
  EXPECT_EQ(run, 1);
}

INSTANTIATE_TEST_SUITE_P(Both, GoldenAttention, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

}  // namespace
}  // namespace capstan::nn
