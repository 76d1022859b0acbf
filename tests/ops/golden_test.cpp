// The catalogue against the reference results of tests/golden: all but attention.
#include <capstan/ops/activation.h>
#include <capstan/ops/arg.h>
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

INSTANTIATE_TEST_SUITE_P(Dtypes, Golden, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

// ---- elementwise, reductions, rearrangements --------------------------------------------------------------------------

Axes axes_of(const nlohmann::json& json, int rank) {
  Axes axes;
  if (json.is_null()) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  } else {
    for (const auto& axis : json) axes.push_back(axis.get<int>());
  }
  return axes;
}

Tensor elementwise(const GoldenCase& golden, const Named& in) {
  const auto& options = golden.options;
  const std::string op = golden.op();
  auto x = [&]() -> const Tensor& { return in.at("x"); };
  if (op == "add") return in.at("a") + in.at("b");
  if (op == "sub") return in.at("a") - in.at("b");
  if (op == "mul") return in.at("a") * in.at("b");
  if (op == "div") return in.at("a") / in.at("b");
  if (op == "exp") return exp(x());
  if (op == "log") return log(x());
  if (op == "tanh") return tanh(x());
  if (op == "relu") return relu(x());
  if (op == "sigmoid") return sigmoid(x());
  if (op == "gelu_erf") return gelu_erf(x());
  if (op == "gelu_tanh") return gelu_tanh(x());
  if (op == "silu") return silu(x());
  if (op == "sum") return sum(x(), axes_of(options["axes"], x().rank()), options["keepdim"].get<bool>());
  if (op == "mean") return mean(x(), axes_of(options["axes"], x().rank()), options["keepdim"].get<bool>());
  if (op == "max") return max(x(), Axes{options["axis"].get<int>()}, options["keepdim"].get<bool>());
  if (op == "transpose") return permute(x(), axes_of(options["axes"], x().rank()));
  if (op == "reshape") return reshape(x(), Shape(std::span<const Index>(options["shape"].get<std::vector<Index>>())));
  if (op == "slice") return slice(x(), options["axis"], options["start"], options["stop"], options["step"]);
  if (op == "concat") {
    std::vector<Tensor> parts;
    for (const auto& [name, part] : in) parts.push_back(part);
    return concat(std::span<const Tensor>(parts), options["axis"].get<int>());
  }
  if (op == "where") return where(in.at("condition"), in.at("a"), in.at("b"));
  if (op == "masked_fill") {
    const auto& value = options["value"];
    return masked_fill(x(), in.at("mask"),
                       value.is_string() ? -std::numeric_limits<double>::infinity() : value.get<double>());
  }
  throw std::runtime_error("no such op: " + op);
}

TEST_P(Golden, ElementwiseAndReduce) {
  for_each_case("elementwise_reduce", dtype(), narrow() ? 105 : 108, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      Named outputs = {{"out", elementwise(g, in)}};
      if (g.op() == "max") outputs["indices"] = argmax(in.at("x"), g.options["axis"], g.options["keepdim"].get<bool>());
      return outputs;
    });
  });
}

// ---- matmul, softmax, layer_norm, embedding, cross_entropy --------------------------------------------------------------

TEST_P(Golden, Matmul) {
  for_each_case("matmul", dtype(), 26, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      const Tensor &a = in.at("a"), &b = in.at("b");
      return Named{{"out", matmul(g.options["transpose_a"].get<bool>() ? transpose(a) : a,
                                  g.options["transpose_b"].get<bool>() ? transpose(b) : b)}};
    });
  });
}

TEST_P(Golden, Softmax) {
  for_each_case("softmax", dtype(), 28, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      const int axis = g.options["axis"];
      return Named{{"out", g.op() == "softmax" ? softmax(in.at("x"), axis) : log_softmax(in.at("x"), axis)}};
    });
  });
}

TEST_P(Golden, LayerNorm) {
  for_each_case("layer_norm", dtype(), 19, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      const LayerNormOutputs all =
          layer_norm_outputs(in.at("x"), optional_input(in, "weight"), optional_input(in, "bias"), g.options["eps"]);
      return Named{{"out", all.y}, {"mean", all.mean}, {"rstd", all.rstd}};
    });
  });
}

TEST_P(Golden, Embedding) {
  for_each_case("embedding", dtype(), 11, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      const auto& padding = g.options["padding_idx"];
      return Named{{"out", embedding(in.at("weight"), in.at("ids"),
                                     padding.is_null() ? std::nullopt : std::optional<Index>(padding.get<Index>()))}};
    });
  });
}

TEST_P(Golden, CrossEntropy) {
  for_each_case("cross_entropy", dtype(), 52, [&](const GoldenCase& golden) {
    check(golden, dtype(), bound(), [](const GoldenCase& g, const Named& in) {
      return Named{{"loss", cross_entropy(in.at("logits"), in.at("targets"),
                                          {.ignore_index = g.options["ignore_index"].get<Index>(),
                                           .label_smoothing = g.options["label_smoothing"],
                                           .weights = optional_input(in, "class_weights"),
                                           .reduction = reduction_of(g.options["reduction"])})}};
    });
  });
}

}  // namespace
}  // namespace capstan::test
