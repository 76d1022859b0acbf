// LayerNorm: normalises the last axis (Ba, Kiros and Hinton 2016).
#pragma once

#include <capstan/nn/module.h>

#include <optional>

namespace capstan::nn {

/// A residual stream [..., width] between two layers: x + branch, the sum left to the norm that reads it next, so that it
/// is one pass over memory with it (ops/layer_norm.h's add_layer_norm). An empty branch: x alone.
struct ResidualStream {
  Tensor x, branch = {};
};

/// y = (x − mean) / √(variance + eps) · weight + bias over the last axis, the variance being the mean square.
/// x [..., width] → [..., width];  weight [width] starts at 1, bias [width] at 0.
/// Errors, with the layer's path as Linear's: the last axis of x is not `width`; x has another dtype than the weight.
struct LayerNorm {
  struct Config {
    Index width = 0;
    double eps = 1e-5;
    bool bias = true;
  };
  Parameter weight;
  std::optional<Parameter> bias;
  double eps;

  LayerNorm(Init& init, const Config& config);
  Tensor operator()(const Tensor& x) const;
  /// The norm of a stream's sum, which is the stream from then on.
  Tensor operator()(ResidualStream& stream) const;
  static void fields(auto& self, auto& f) {
    f("weight", self.weight);
    f("bias", self.bias);
  }
};

}  // namespace capstan::nn
