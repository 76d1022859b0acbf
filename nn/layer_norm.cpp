#include <capstan/nn/layer_norm.h>
#include <capstan/ops/layer_norm.h>

namespace capstan::nn {

LayerNorm::LayerNorm(Init& init, const Config& config) : weight(init.ones({config.width})), eps(config.eps) {
  if (config.bias) bias = init.zeros({config.width});
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  detail::require_input("LayerNorm", weight, x, weight.shape()[0]);
  return layer_norm(x, weight, bias ? bias->value() : Tensor(), eps);
}

Tensor LayerNorm::operator()(ResidualStream& stream) const {
  if (!stream.branch.defined()) return (*this)(stream.x);
  detail::require_input("LayerNorm", weight, stream.x, weight.shape()[0]);
  AddLayerNormOutputs outputs = add_layer_norm(stream.x, stream.branch, weight, bias ? bias->value() : Tensor(), eps);
  stream = {std::move(outputs.sum)};
  return std::move(outputs.y);
}

}  // namespace capstan::nn
