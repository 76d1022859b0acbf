// The gradient check: analytic derivatives against five-point central differences in f64, at first and second order, with
// random cotangents. Public, because users add ops and modules too. Not for: f32 (differences drown in rounding).
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/random.h>
#include <capstan/autograd/tensor.h>

#include <string>
#include <vector>

namespace capstan {

struct GradcheckOptions {
  /// 1: gradients; 2: also the derivative of the gradients, with respect to the inputs and the cotangents.
  int order = 2;
  /// An entry passes if |analytic − numeric| ≤ tolerance · max(1, |numeric|, |⟨u, y⟩|).
  double tolerance = 1e-9;
  /// Step of the differences: the power of two at or below step · max(1, |x|).
  double step = 1e-3;
  /// Draws the cotangents.
  Key key{.seed = 1};
  /// Names the check in messages: "softmax [last axis]".
  std::string label = "f";
  /// What messages call the inputs in place of "input 0", "input 1" …: empty, or one for each input.
  std::vector<std::string> names = {};
  /// For each input: empty, or a boolean tensor of its shape. Where true, the analytic gradient must be exactly 0 and no
  /// difference is taken.
  std::vector<Tensor> exactly_zero = {};
};

struct GradcheckReport {
  bool passed = true;
  /// The largest |analytic − numeric| / max(1, |numeric|, |⟨u, y⟩|) at each order.
  double worst_first_order = 0;
  double worst_second_order = 0;
  Index entries = 0;  ///< derivatives compared; 0, and passed, if the inputs have no elements
  /// Empty, or one sentence for the worst failing entry of the lowest failing order (a wrong gradient has wrong derivatives
  /// too): label, order, input, index, both values, tolerance.
  std::string failure;
  explicit operator bool() const { return passed; }
};

using GradcheckFunction = FunctionRef<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Checks f at `inputs`: f64 inputs are differentiated, i32 and boolean ones are constants. Every f64 output is checked
/// alone and all together, with cotangents drawn from `key`. Inputs keep their memory layout while single logical elements are
/// perturbed. Five-point differences f' ≈ (8(f(x+h) − f(x−h)) − (f(x+2h) − f(x−2h))) / 12h.
/// Errors: an f32 input or output; no f64 input; an output that is not finite.
GradcheckReport gradcheck(GradcheckFunction f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace capstan
