// What layer norm by itself and layer norm of a sum share. Internal to the ops layer.
#pragma once

#include <capstan/autograd/op.h>

namespace capstan::ops {

/// The parameters of a norm as inputs of its op, whose outputs 0, 1 and 2 are y, mean and rstd.
struct NormParameters {
  double eps;
  int weight, bias;  ///< their inputs' numbers; 0: none

  /// Weight and bias, as far as there are any, follow `before` other inputs.
  NormParameters(double eps_, int before, bool has_weight, bool has_bias)
      : eps(eps_), weight(has_weight ? before : 0), bias(has_bias ? before + has_weight : 0) {}

  /// Weight and statistics, and `x`, as far as they are read.
  Reads reads(Wanted wanted, bool wants_x, Reads x) const;
  /// Types of y, mean and rstd for x = in[0]; Errors name `op`.
  Types infer(std::string_view op, Inputs in) const;

  /// The gradient of x, the tensor that was normalised, if wanted; those of weight and bias go to `gradients`.
  Tensor vjp(const Call& call, const Tensor& x, bool wants_x, Tensors& gradients) const;
  /// The same by the kernel, into `dx` (or added to it, or absent); wants no cotangents of the statistics.
  void vjp_kernel(const Call& call, const Tensor& x, View dx, bool adds, Tensors& gradients) const;

  bool wants_weight(const Call& call) const { return weight != 0 && call.wants(weight); }
};

}  // namespace capstan::ops
