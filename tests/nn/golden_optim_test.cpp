// The optimisers, clipping and schedules against the reference traces and tables of tests/golden/optimizers.json: every case.
#include <capstan/nn/nn.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/two.h"

namespace capstan::nn {
namespace {

using test::golden_cases;
using test::golden_difference;
using test::GoldenCase;
using test::Two;

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

template <class Optimizer>
Optimizer adam_of(const nlohmann::json& o) {
  return {.lr = o["lr"],
          .beta1 = o["betas"][0],
          .beta2 = o["betas"][1],
          .eps = o["eps"],
          .weight_decay = o["weight_decay"],
          .amsgrad = o["amsgrad"],
          .decays = o.contains("weight_decay_on") ? decays_w : nullptr};
}

void expect_table(const GoldenCase& golden) {
  const auto& o = golden.options;
  // "to_floor" counts its steps from 0 and warms up in one more: the same curve one step later.
  const Index later = o["variant"] == "to_floor" ? 1 : 0;
  const CosineWithWarmup rate{.peak = o["peak"],
                              .lowest = o["floor"],
                              .warmup = o["warmup"].get<Index>() + later,
                              .steps = o["total"].get<Index>() + later};
  const std::vector<double> table = golden.outputs.at("lr").to_doubles();
  EXPECT_GT(table.size(), 10U);
  for (std::size_t t = 0; t < table.size(); ++t)
    EXPECT_NEAR(rate(static_cast<Index>(t) + later), table[t], 1e-10 * table[t] + 1e-16) << golden.name << " " << t;
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
  if (golden.op() == "adamw") return expect_trace(golden, adam_of<AdamW>(o), dtype);
  if (golden.op() == "adam") return expect_trace(golden, adam_of<Adam>(o), dtype);
  if (golden.op() == "rmsprop")
    return expect_trace(golden,
                        RmsProp{.lr = o["lr"],
                                .alpha = o["alpha"],
                                .eps = o["eps"],
                                .weight_decay = o["weight_decay"],
                                .momentum = o["momentum"],
                                .centered = o["centered"]},
                        dtype);
  if (golden.op() == "lion")
    return expect_trace(
        golden, Lion{.lr = o["lr"], .beta1 = o["betas"][0], .beta2 = o["betas"][1], .weight_decay = o["weight_decay"]},
        dtype);
  if (golden.op() == "cosine_with_warmup") return expect_table(golden);
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
  const std::vector<GoldenCase> cases = golden_cases("optimizers");
  EXPECT_EQ(cases.size(), 38U);
  for (const GoldenCase& golden : cases) expect_case(golden, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Both, GoldenOptimizers, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

}  // namespace
}  // namespace capstan::nn
