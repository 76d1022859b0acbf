// The optimisers and clipping against the reference traces of tests/golden/optimizers.json. Cases that are not run stand
// in a closed list with their number and reason.
#include <capstan/nn/nn.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"

namespace capstan::nn {
namespace {

using test::golden_cases;
using test::golden_difference;
using test::GoldenCase;

/// Cases that nothing here can answer.
struct LeftOut {
  const char* what;
  int cases;
  const char* reason;
};
constexpr LeftOut left_out[] = {
    {"amsgrad", 2, "a variant of Adam that capstan does not have"},
    {"adam_l2", 1, "Adam with decay in the gradient; AdamW decays the parameter"},
    {"rmsprop", 3, "capstan does not have it"},
    {"lion", 2, "capstan does not have it"},
    {"cosine_with_warmup", 4, "a schedule belongs to the trainer, whose tests have it"},
};
constexpr int all_cases = 38;

const char* reason_to_leave_out(const GoldenCase& golden) {
  const auto entry = [](const std::string& what) {
    const auto* found = std::ranges::find_if(left_out, [&](const LeftOut& row) { return what == row.what; });
    return found == std::end(left_out) ? nullptr : found->what;
  };
  if (golden.options.value("amsgrad", false)) return entry("amsgrad");
  if (golden.op() == "adam" && golden.options["weight_decay"] != 0.0) return entry("adam_l2");
  return entry(golden.op());
}

struct Two {
  Tensor w, b;
  static void fields(auto& self, auto& f) {
    f("w", self.w);
    f("b", self.b);
  }
};

bool decays_w(std::string_view name, const Tensor&) { return name == "w"; }

/// Step t of a trace [12, ...].
Tensor at_step(const Tensor& trace, Index t) {
  return reshape(slice(trace, 0, t, t + 1),
                 trace.shape().rank() == 3 ? Shape{trace.shape()[1], trace.shape()[2]} : Shape{trace.shape()[1]});
}

template <class Optimizer>
void expect_trace(const GoldenCase& golden, Optimizer optimizer, DType dtype) {
  const auto in = [&](const char* name) { return test::in_dtype(golden.inputs.at(name), dtype); };
  Two module{in("w"), in("b")};
  const Tensor gradients_w = in("gradients_w"), gradients_b = in("gradients_b");
  const Index steps = golden.options["steps"];
  ASSERT_EQ(steps, 12);
  for (Index t = 0; t < steps; ++t) {
    optimizer.step(module, {at_step(gradients_w, t), at_step(gradients_b, t)});
    for (const auto& [name, x] : {std::pair{"w", module.w}, std::pair{"b", module.b}})
      EXPECT_EQ(golden_difference(golden.name + " " + name + " after step " + std::to_string(t + 1), x,
                                  at_step(golden.outputs.at(name), t), test::bound_for(dtype)),
                "");
  }
}

void expect_case(const GoldenCase& golden, DType dtype) {
  const auto& o = golden.options;
  if (golden.op() == "sgd")
    return expect_trace(golden,
                        Sgd{.lr = o["lr"],
                            .momentum = o["momentum"],
                            .dampening = o["dampening"],
                            .weight_decay = o["weight_decay"],
                            .nesterov = o["nesterov"]},
                        dtype);
  if (golden.op() == "adamw" || golden.op() == "adam")
    return expect_trace(golden,
                        AdamW{.lr = o["lr"],
                              .beta1 = o["betas"][0],
                              .beta2 = o["betas"][1],
                              .eps = o["eps"],
                              .weight_decay = o["weight_decay"],
                              .decays = o.contains("weight_decay_on") ? decays_w : nullptr},
                        dtype);
  ASSERT_EQ(golden.op(), "clip_grad_norm") << golden.name;
  // These come in a dtype of their own, and norms beyond f32 are numbers here.
  const DType own = golden.raw["inputs"]["w"]["dtype"] == "f32" ? DType::f32 : DType::f64;
  Two gradients{test::in_dtype(golden.inputs.at("w"), own), test::in_dtype(golden.inputs.at("b"), own)};
  EXPECT_EQ(gradients.w.dtype(), own);
  const double norm = clip_gradient_norm(gradients, o["max_norm"]);
  const test::Bound bound = own == DType::f64 ? test::Bound{1e-10, 0} : test::Bound{2e-7, 0};  // relatively: "wanted"
  EXPECT_EQ(golden_difference(golden.name + " norm", tensor(norm, DType::f64), golden.outputs.at("norm"), bound), "");
  EXPECT_EQ(golden_difference(golden.name + " w", gradients.w, golden.outputs.at("w"), bound), "");
  EXPECT_EQ(golden_difference(golden.name + " b", gradients.b, golden.outputs.at("b"), bound), "");
}

class GoldenOptimizers : public testing::TestWithParam<DType> {};

TEST_P(GoldenOptimizers, FollowTheirTraces) {
  std::map<std::string, int> left;
  int run = 0;
  const std::vector<GoldenCase> cases = golden_cases("optimizers");
  ASSERT_EQ(cases.size(), static_cast<std::size_t>(all_cases));
  for (const GoldenCase& golden : cases) {
    if (const char* what = reason_to_leave_out(golden)) {
      ++left[what];
      continue;
    }
    ++run;
    expect_case(golden, GetParam());
  }
  int listed = 0;
  for (const LeftOut& row : left_out) {
    EXPECT_EQ(left[row.what], row.cases) << row.what << ": " << row.reason;
    listed += row.cases;
  }
  EXPECT_EQ(run, all_cases - listed);
}

INSTANTIATE_TEST_SUITE_P(Both, GoldenOptimizers, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

}  // namespace
}  // namespace capstan::nn
