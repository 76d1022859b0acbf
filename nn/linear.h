// Linear: an affine map of the last axis.
#pragma once

#include <capstan/nn/module.h>

#include <optional>

namespace capstan::nn {

/// y = x Wᵀ + b.   x [..., in] → [..., out];  weight [out, in], bias [out].
/// Without `deviation` weight and bias start uniform on ±1/√in; with it the weight starts normal(0, deviation) and the
/// bias zero. Errors: the last axis of x is not `in`; x has another dtype than the weight. The sentence names the layer's path
/// once name_parameters() ran (Gpt's constructor does).
struct Linear {
  struct Config {
    Index in = 0;
    Index out = 0;
    bool bias = true;
    std::optional<double> deviation = {};
  };
  Parameter weight;
  std::optional<Parameter> bias;

  Linear(Init& init, const Config& config);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& self, auto& f) {
    f("weight", self.weight);
    f("bias", self.bias);
  }
};

}  // namespace capstan::nn
