// The catalogue against the reference results of tests/golden, in f64 and f32. Cases that are not run stand in a closed
// list with their number and reason.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "support/golden.h"

namespace capstan::test {
namespace {

/// Cases of a file that no op of the catalogue can answer yet.
struct LeftOut {
  const char* file;
  const char* what;  // an op, an input that the op does not take, or the name of a case
  int cases;
  const char* reason;
};
constexpr LeftOut left_out[] = {
    {"elementwise_reduce", "mean_zero_size", 1,
     "the mean of nothing is NaN there, and an error here (run in golden_reduce_test.cpp)"},
    {"layer_norm", "rms_norm", 18, "run in golden_rms_norm_test.cpp"},
    {"highorder", "rms_norm", 1, "run in golden_rms_norm_test.cpp"},
};

/// The same, for f32 alone: cases whose numbers do not exist there.
constexpr LeftOut left_out_in_f32[] = {
    {"elementwise_reduce", "exp_extremes", 1, "exp(700) is beyond f32"},
    {"elementwise_reduce", "log_extremes", 1, "1e-300 is beyond f32"},
    {"elementwise_reduce", "relu_extremes", 1, "1e300 is beyond f32"},
};

/// Bounds that conditioning demands: |got − want| ≤ absolute as well passes.
struct Looser {
  const char* case_name;
  const char* tensor;
  double f64, f32;  // absolute; 0: none
  const char* reason;
};
constexpr Looser looser[] = {
    {"layer_norm_constant_rows", "gradient of weight", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"layer_norm_length_1", "gradient of weight", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"layer_norm_length_1", "gradient of x", 1e-12, 1e-12, "exactly 0 here; the reference's rounding"},
    {"bias_rows", "gradient of bias", 1e-14, 1e-6, "a bias of whole rows changes nothing: both are rounding around 0"},
    {"large_scores", "gradient of q", 0, 1e-37, "1e-82 is beyond f32"},
    {"large_scores", "gradient of k", 0, 1e-37, "1e-82 is beyond f32"},
    {"layer_norm_length_2", "gradient of x", 0, 1e-7,
     "two elements normalise to ±1 whatever they are: the gradient cancels"},
    {"layer_norm_offset", "out", 0, 1e-3,
     "f32 keeps 2000 ± 1 to 6e-5, an input error that the row's spread does not hide"},
    {"layer_norm_offset", "mean", 0, 1e-3, "the same"},
    {"layer_norm_offset", "rstd", 0, 1e-3, "the same"},
    {"layer_norm_offset", "gradient of x", 0, 1e-3, "the same"},
    {"layer_norm_offset", "gradient of weight", 0, 1e-3, "the same"},
    {"softmax_huge_shift", "out", 0, 1e-2, "f32 keeps 100000 ± 1 to 4e-3, an error of the input"},
    {"softmax_huge_shift", "gradient of x", 0, 1e-2, "the same"},
    {"log_softmax_huge_shift", "out", 0, 1e-2, "the same"},
    {"log_softmax_huge_shift", "gradient of x", 0, 1e-2, "the same"},
};

/// The same, for the fused attention alone: its dS = P (dP − Σ dO O) cancels by rounding where one weight is all.
constexpr Looser looser_if_fused[] = {
    {"t_1", "gradient of q", 1e-16, 1e-6, "exactly 0 by the softmax's rule"},
    {"t_1", "gradient of k", 1e-16, 1e-6, "the same"},
    {"t_1_causal", "gradient of q", 1e-16, 1e-6, "the same"},
    {"t_1_causal", "gradient of k", 1e-16, 1e-6, "the same"},
    {"large_scores", "gradient of q", 1e-13, 1e-4, "1e-82 by the softmax's rule; scores of 1e3"},
    {"large_scores", "gradient of k", 1e-13, 1e-4, "the same"},
    {"large_scores", "gradient of v", 0, 2e-4, "weights come again from a logsumexp of 3e3, which f32 keeps to 2e-4"},
};

bool within_looser(const GoldenCase& golden, const std::string& tensor, DType dtype, const Tensor& got,
                   const Tensor& want, std::span<const Looser> entries = looser) {
  for (const Looser& entry : entries) {
    const double absolute = dtype == DType::f64 ? entry.f64 : entry.f32;
    if (golden.name != entry.case_name || tensor != entry.tensor || absolute == 0 || got.shape() != want.shape())
      continue;
    const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= absolute)) return false;
    return true;
  }
  return false;
}

/// Outputs that the ops do not return.
const std::set<std::string> not_returned = {
    "lse",  // an output of the fused attention alone
};

std::vector<LeftOut> left_out_of(const std::string& file, DType dtype) {
  std::vector<LeftOut> result;
  for (const LeftOut& entry : left_out)
    if (file == entry.file) result.push_back(entry);
  if (dtype == DType::f32)
    for (const LeftOut& entry : left_out_in_f32)
      if (file == entry.file) result.push_back(entry);
  return result;
}

bool skipped(const GoldenCase& golden, const std::vector<LeftOut>& entries, std::map<std::string, int>& count) {
  for (const LeftOut& entry : entries)
    if (golden.op() == entry.what || golden.name == entry.what || golden.inputs.contains(entry.what)) {
      ++count[entry.what];
      return true;
    }
  return false;
}

/// Runs fn on each case of a file that is not left out; asserts the number of both kinds.
template <class F>
void for_each_case(const std::string& file, DType dtype, int expected, F&& fn) {
  const std::vector<LeftOut> entries = left_out_of(file, dtype);
  std::map<std::string, int> count;
  int ran = 0;
  for (const GoldenCase& golden : golden_cases(file)) {
    if (skipped(golden, entries, count)) continue;
    SCOPED_TRACE(file + "/" + golden.name);
    try {
      fn(golden);
    } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
    ++ran;
  }
  EXPECT_EQ(ran, expected);
  for (const LeftOut& entry : left_out)
    if (file == entry.file) { EXPECT_EQ(count[entry.what], entry.cases) << entry.what << ": " << entry.reason; }
}

Named in_dtype(const Named& tensors, DType dtype) {
  Named result;
  for (const auto& [name, value] : tensors) result[name] = test::in_dtype(value, dtype);
  return result;
}

void expect_close(const std::string& what, const Tensor& got, const Tensor& want, Bound bound) {
  const std::string text = golden_difference(what, got, want, bound);
  EXPECT_TRUE(text.empty()) << text;
}

/// f's outputs and gradients against the case's.
template <class F>
void check(const GoldenCase& golden, DType dtype, Bound bound, F&& f, std::span<const Looser> also_looser = {}) {
  Tape tape;
  Named inputs = in_dtype(golden.inputs, dtype);
  for (const auto& [name, gradient] : golden.gradients) inputs[name] = tape.watch(inputs.at(name));
  const Named outputs = f(golden, inputs);
  // What is wanted is given to the last digit: in f64 it is compared relatively, so that a tail of 1e-11 cannot pass as 0.
  const Bound strict = dtype == DType::f64 ? Bound{1e-10, 0} : bound;
  for (const auto& [name, want] : golden.outputs) {
    if (not_returned.contains(name) && !outputs.contains(name)) continue;
    if (!outputs.contains(name)) {
      ADD_FAILURE() << "no output " << name;
      continue;
    }
    if (within_looser(golden, name, dtype, outputs.at(name), want)) continue;
    expect_close(name, outputs.at(name), want, golden.wanted_outputs.contains(name) ? strict : bound);
  }
  std::vector<Root> roots;
  for (const auto& [name, cotangent] : golden.upstream)
    if (outputs.at(name).recorded()) roots.push_back({outputs.at(name), test::in_dtype(cotangent, dtype)});
  if (roots.empty()) return;
  const Gradients gradients = tape.backward(roots);
  for (const auto& [name, want] : golden.gradients) {
    const std::string what = "gradient of " + name;
    const Tensor got = gradients.of(inputs.at(name));
    if (within_looser(golden, what, dtype, got, want) || within_looser(golden, what, dtype, got, want, also_looser))
      continue;
    expect_close(what, got, want, golden.wanted_gradients.contains(name) ? strict : bound);
  }
}

class Golden : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  bool narrow() const { return dtype() == DType::f32; }
  Bound bound() const { return bound_for(dtype()); }
};
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

Tensor optional_input(const Named& in, const char* name) { return in.contains(name) ? in.at(name) : Tensor(); }

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

Reduction reduction_of(const std::string& name) {
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
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

TEST_P(Golden, AttentionReference) {
  for_each_case("attention", dtype(), 60,
                [&](const GoldenCase& golden) { check_attention(golden, dtype(), bound(), false); });
}

TEST_P(Golden, FusedAttention) {
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

TEST_P(Golden, HighOrder) {
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

TEST_P(Golden, WorkedExamples) {
  for_each_case("seed_attention", dtype(), 6, [&](const GoldenCase& golden) {
    if (golden.op() == "simulation")
      simulate(golden, dtype());
    else
      check(golden, dtype(), bound(), one_head);
  });
}

}  // namespace
}  // namespace capstan::test
