// Whole derivatives of a function of one tensor: Jacobians and Hessians, row by row. Not for: products with them, which cost
// a few gradients instead of one for each element (vjp, jvp and hvp in autograd/transform.h).
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/transform.h>

namespace capstan {

namespace detail {
Tensor jacobian(const char* name, const Tensor& x, FunctionRef<Tensor(const Tensor&)> f);
}  // namespace detail

/// ∂f/∂x of y = f(x): [y.shape..., x.shape...], of x's dtype. f is called once, and backward runs once for each element of y.
/// Recorded, and so differentiable, where a tape is recording x or what f captured. jacobian of x ↦ x² at [1, 2] is
/// [[2, 0], [0, 4]]. Errors: x or f's result is neither f32 nor f64; both together have more than 8 axes.
template <class F>
Tensor jacobian(const Tensor& x, F&& f) {
  return detail::jacobian("jacobian", x, [&](const Tensor& v) -> Tensor { return f(v); });
}

/// ∂²f/∂x² of a scalar f: [x.shape..., x.shape...], the Jacobian of its gradient. hessian of x ↦ Σ x³ at [1, 2] is
/// [[6, 0], [0, 12]]. Errors: f's result is not a scalar; x is neither f32 nor f64, or has more than 4 axes.
template <class F>
Tensor hessian(const Tensor& x, F&& f) {
  return detail::jacobian("hessian", x, [&](const Tensor& v) -> Tensor {
    return detail::differentiate("hessian", v, f, Tensor()).gradient;
  });
}

}  // namespace capstan
