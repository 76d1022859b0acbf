// Attention against the reference results of tests/golden: the reference and the fused op, second derivatives (of other ops
// too), and examples worked by hand.
#include <capstan/ops/activation.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <limits>

#include "ops/golden_cases.h"

namespace capstan::test {
namespace {

class GoldenAttention : public Golden {};
INSTANTIATE_TEST_SUITE_P(Dtypes, GoldenAttention, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

// ---- attention ---------------------------------------------------------------------------------------------------------

std::optional<Index> bound_of(const nlohmann::json& json) {
  return json.is_null() ? std::nullopt : std::optional<Index>(json.get<Index>());
}

Mask mask_of(const GoldenCase& golden, const Named& in) {
  const auto& options = golden.options;
  Mask mask;
  auto align = [](const std::string& name) { return name == "bottom_right" ? Align::bottom_right : Align::top_left; };
  if (options["causal"] != "none") mask = mask & Mask::causal(align(options["causal"]));
  const auto left = bound_of(options["window_left"]), right = bound_of(options["window_right"]);
  if (left || right) mask = mask & Mask::window(left, right, align(options["window_alignment"]));
  if (in.contains("lengths")) mask = mask & Mask::padding(in.at("lengths"));
  if (in.contains("mask")) mask = mask & Mask::keep(in.at("mask"));
  return mask;
}

Named attention_outputs(const GoldenCase& golden, const Named& in, bool fused) {
  const AttentionOptions options{.mask = mask_of(golden, in),
                                 .bias = {optional_input(in, "bias")},
                                 .scale = golden.options["scale"].get<double>()};
  const Tensor &q = in.at("q"), &k = in.at("k"), &v = in.at("v");
  const AttentionResult reference = attention_reference(q, k, v, options);
  if (!fused) return {{"out", reference.output}, {"weights", reference.weights}};
  const FusedAttentionResult result = attention(q, k, v, options);
  return {{"out", result.output}, {"lse", result.logsumexp}, {"weights", reference.weights}};
}

void check_attention(const GoldenCase& golden, DType dtype, Bound bound, bool fused) {
  const auto outputs_of = [fused](const GoldenCase& g, const Named& in) {
    Named outputs = attention_outputs(g, in, fused);
    if (g.outputs.contains("allowed")) {
      const Shape scores = g.outputs.at("allowed").shape();
      outputs["allowed"] = broadcast_to(mask_of(g, in).keep_tensor(scores), scores);
    }
    return outputs;
  };
  check(golden, dtype, bound, outputs_of, fused ? std::span<const Looser>(looser_if_fused) : std::span<const Looser>());
}

TEST_P(GoldenAttention, AttentionReference) {
  for_each_case("attention", dtype(), 60,
                [&](const GoldenCase& golden) { check_attention(golden, dtype(), bound(), false); });
}

TEST_P(GoldenAttention, FusedAttention) {
  for_each_case("attention", dtype(), 60,
                [&](const GoldenCase& golden) { check_attention(golden, dtype(), bound(), true); });
}

// ---- higher orders -----------------------------------------------------------------------------------------------------

Tensor high_order_output(const GoldenCase& golden, const Named& in) {
  const std::string op = golden.op();
  if (op == "layer_norm")
    return layer_norm(in.at("x"), optional_input(in, "weight"), optional_input(in, "bias"), golden.options["eps"]);
  if (op == "gelu_erf") return gelu_erf(in.at("x"));
  if (op == "gelu_tanh") return gelu_tanh(in.at("x"));
  if (op == "attention")
    return attention(in.at("q"), in.at("k"), in.at("v"),
                     {.mask = golden.options["causal"].get<bool>() ? Mask::causal() : Mask::all(),
                      .scale = golden.options["scale"].get<double>()})
        .output;
  throw std::runtime_error("no such op: " + op);
}

Tensor high_order_loss(const GoldenCase& golden, const Named& in) {
  if (golden.op() == "cross_entropy")
    return cross_entropy(in.at("logits"), in.at("targets"), {.reduction = reduction_of(golden.options["reduction"])});
  const Tensor y = high_order_output(golden, in), &c = in.at("c");
  const std::string loss = golden.options["loss"];
  if (loss == "sum(c*y)") return sum(c * y);
  if (loss == "sum(c*y + e*y*y/2)") return sum(c * y + in.at("e") * y * y / 2.0);
  if (loss == "sum(c*y*y/2)") return sum(c * y * y / 2.0);
  throw std::runtime_error("no such loss: " + loss);
}

TEST_P(GoldenAttention, HighOrder) {
  for_each_case("highorder", dtype(), 9, [&](const GoldenCase& golden) {
    Tape tape;
    Named in = in_dtype(golden.inputs, dtype());
    for (const auto& [name, vector] : golden.vectors) in[name] = tape.watch(in.at(name));
    const Tensor loss = high_order_loss(golden, in);
    expect_close("loss", loss, golden.outputs.at("loss"), bound());
    const Gradients first = tape.backward(loss, {.create_graph = true});
    std::vector<Root> along;
    for (const auto& [name, vector] : golden.vectors) {
      const Tensor gradient = first.of(in.at(name));
      expect_close("gradient of " + name, gradient, golden.gradients.at(name), bound());
      if (gradient.recorded()) along.push_back({gradient, test::in_dtype(vector, dtype())});
    }
    const Gradients second = tape.backward(along);
    for (const auto& [name, product] : golden.hessian_vector_products)
      expect_close("Hessian-vector product of " + name, second.of(in.at(name)), product, bound());
  });
}

// ---- worked examples ---------------------------------------------------------------------------------------------------

Named one_head(const GoldenCase& golden, const Named& in) {
  const Tensor x = in.contains("x") ? in.at("x") : embedding(in.at("embedding"), in.at("tokens"));
  const Tensor q = matmul(x, in.at("w_q")), k = matmul(x, in.at("w_k")), v = matmul(x, in.at("w_v"));
  const Index tokens = q.size(0);
  auto head = [&](const Tensor& t) { return reshape(t, Shape{1, 1, tokens, t.size(1)}); };
  const Mask mask = golden.options["causal"].get<bool>() ? Mask::causal() : Mask::all();
  const AttentionResult result = attention_reference(head(q), head(k), head(v), {.mask = mask});
  const Tensor scores = matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(1)));
  const Tensor keep =
      reshape(broadcast_to(mask.keep_tensor({1, 1, tokens, tokens}), {1, 1, tokens, tokens}), Shape{tokens, tokens});
  return {{"x", x},
          {"q", q},
          {"k", k},
          {"v", v},
          {"scores", scores},
          {"masked", where(keep, scores, -std::numeric_limits<double>::infinity())},
          {"weights", reshape(result.weights, Shape{tokens, tokens})},
          {"out", reshape(result.output, Shape{tokens, v.size(1)})}};
}

/// The simulation behind 1/√d, with random numbers of our own.
void simulate(const GoldenCase& golden, DType dtype) {
  const Index d = golden.options["d"], keys = golden.options["keys"], repeats = golden.options["repeats"];
  const Tensor q = normal(Key{.seed = 1}, {repeats, 1, d}, 0, 1, dtype),
               k = normal(Key{.seed = 2}, {repeats, keys, d}, 0, 1, dtype);
  const Tensor dots = matmul(q, transpose(k));
  const Tensor scaled = dots / std::sqrt(static_cast<double>(d));
  auto largest = [](const Tensor& scores) { return mean(max(softmax(scores), {-1})).item(); };
  const double count = static_cast<double>(dots.elements());
  const double average = mean(dots).item();
  EXPECT_NEAR(std::sqrt(sum(dots * dots).item() / count - average * average) / golden.outputs.at("std_of_dot").item(),
              1, 0.04);
  EXPECT_NEAR(largest(dots), golden.outputs.at("mean_max_weight_unscaled").item(), 0.02);
  EXPECT_NEAR(largest(scaled), golden.outputs.at("mean_max_weight_scaled").item(), 0.02);
}

TEST_P(GoldenAttention, WorkedExamples) {
  for_each_case("seed_attention", dtype(), 6, [&](const GoldenCase& golden) {
    if (golden.op() == "simulation")
      simulate(golden, dtype());
    else
      check(golden, dtype(), bound(), one_head);
  });
}

}  // namespace
}  // namespace capstan::test
