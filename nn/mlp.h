// Mlp and GatedMlp: the position-wise feed-forward part of a transformer block.
#pragma once

#include <capstan/nn/linear.h>

namespace capstan::nn {

/// y = down(gelu_tanh(up(x))) (Radford et al. 2019).   x [..., width] → [..., width], `hidden` wide inside.
struct Mlp {
  struct Config {
    Index width = 0;
    Index hidden = 0;  ///< 0: 4 · width
    bool bias = true;
    std::optional<double> deviation = {};
    /// Of the projection back into the residual stream; `deviation` if not set.
    std::optional<double> residual_deviation = {};
  };
  Linear up, down;

  Mlp(Init& init, const Config& config);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& self, auto& f) {
    f("up", self.up);
    f("down", self.down);
  }
};

/// SwiGLU: y = down(silu(gate(x)) ⊙ up(x)), silu(x) = x · sigmoid(x) (Shazeer 2020, eq. 6; without biases, as there).
/// x [..., width] → [..., width], `hidden` wide inside.
struct GatedMlp {
  struct Config {
    Index width = 0;
    Index hidden = 0;
    bool bias = false;
    std::optional<double> deviation = {};
    /// Of the projection back into the residual stream; `deviation` if not set.
    std::optional<double> residual_deviation = {};
  };
  Linear gate, up, down;

  GatedMlp(Init& init, const Config& config);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& self, auto& f) {
    f("gate", self.gate);
    f("up", self.up);
    f("down", self.down);
  }
};

}  // namespace capstan::nn
