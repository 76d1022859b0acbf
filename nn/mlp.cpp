#include <capstan/nn/mlp.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/elementwise.h>

namespace capstan::nn {

Mlp::Mlp(Init& init, const Config& config)
    : up(init, {.in = config.width, .out = config.hidden, .bias = config.bias, .deviation = config.deviation}),
      down(init, {.in = config.hidden,
                  .out = config.width,
                  .bias = config.bias,
                  .deviation = config.residual_deviation ? config.residual_deviation : config.deviation}) {}

Tensor Mlp::operator()(const Tensor& x) const { return down(gelu_tanh(up(x))); }

GatedMlp::GatedMlp(Init& init, const Config& config)
    : gate(init, {.in = config.width, .out = config.hidden, .bias = config.bias, .deviation = config.deviation}),
      up(init, {.in = config.width, .out = config.hidden, .bias = config.bias, .deviation = config.deviation}),
      down(init, {.in = config.hidden,
                  .out = config.width,
                  .bias = config.bias,
                  .deviation = config.residual_deviation ? config.residual_deviation : config.deviation}) {}

Tensor GatedMlp::operator()(const Tensor& x) const { return down(silu(gate(x)) * up(x)); }

}  // namespace capstan::nn
