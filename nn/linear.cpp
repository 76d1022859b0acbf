#include <capstan/autograd/format.h>
#include <capstan/nn/linear.h>
#include <capstan/ops/linear.h>

#include <cmath>

namespace capstan::nn {

namespace {
const Linear::Config& checked(const Linear::Config& config) {
  if (config.in <= 0 || config.out <= 0)
    fail("Linear: in and out must be positive; got in {} and out {}", config.in, config.out);
  return config;
}
}  // namespace

Linear::Linear(Init& init, const Config& config)
    : weight(config.deviation
                 ? init.normal({checked(config).out, config.in}, *config.deviation)
                 : init.uniform({checked(config).out, config.in}, 1 / std::sqrt(static_cast<double>(config.in)))) {
  if (!config.bias) return;
  bias = config.deviation ? init.zeros({config.out})
                          : init.uniform({config.out}, 1 / std::sqrt(static_cast<double>(config.in)));
}

Tensor Linear::operator()(const Tensor& x) const {
  detail::require_input("Linear", weight, x, weight.shape()[1]);
  return linear(x, weight, bias ? bias->value() : Tensor());
}

}  // namespace capstan::nn
