#include <capstan/autograd/format.h>
#include <capstan/nn/mlp.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gelu_linear.h>

namespace capstan::nn {

namespace {

Index hidden_of(const Mlp::Config& config) {
  if (config.width <= 0 || config.hidden < 0)
    fail("Mlp: width must be positive and hidden not negative; got width {} and hidden {}", config.width,
         config.hidden);
  return config.hidden > 0 ? config.hidden : 4 * config.width;
}

const GatedMlp::Config& checked(const GatedMlp::Config& config) {
  if (config.width <= 0 || config.hidden <= 0)
    fail("GatedMlp: width and hidden must be positive; got width {} and hidden {}", config.width, config.hidden);
  return config;
}

}  // namespace

Mlp::Mlp(Init& init, const Config& config)
    : up(init, {.in = config.width, .out = hidden_of(config), .bias = config.bias, .deviation = config.deviation}),
      down(init, {.in = hidden_of(config),
                  .out = config.width,
                  .bias = config.bias,
                  .deviation = config.residual_deviation ? config.residual_deviation : config.deviation}) {}

Tensor Mlp::operator()(const Tensor& x) const {
  return gelu_linear(up(x), down.weight, down.bias ? down.bias->value() : Tensor());
}

GatedMlp::GatedMlp(Init& init, const Config& config)
    : gate(init,
           {.in = checked(config).width, .out = config.hidden, .bias = config.bias, .deviation = config.deviation}),
      up(init, {.in = config.width, .out = config.hidden, .bias = config.bias, .deviation = config.deviation}),
      down(init, {.in = config.hidden,
                  .out = config.width,
                  .bias = config.bias,
                  .deviation = config.residual_deviation ? config.residual_deviation : config.deviation}) {}

Tensor GatedMlp::operator()(const Tensor& x) const { return down(silu(gate(x)) * up(x)); }

}  // namespace capstan::nn
