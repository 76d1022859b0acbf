// RmsNorm: scales the last axis to a mean square of 1 (Zhang and Sennrich 2019).
#pragma once

#include <capstan/nn/module.h>

namespace capstan::nn {

/// y = x / √(mean(x²) + eps) · weight over the last axis.   x [..., width] → [..., width];  weight [width] starts at 1.
/// Errors, with the layer's path as Linear's: the last axis of x is not `width`; x has another dtype than the weight.
struct RmsNorm {
  struct Config {
    Index width = 0;
    double eps = 1e-5;
  };
  Parameter weight;
  double eps;

  RmsNorm(Init& init, const Config& config) : weight(init.ones({config.width})), eps(config.eps) {}
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& self, auto& f) { f("weight", self.weight); }
};

}  // namespace capstan::nn
