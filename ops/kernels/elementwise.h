// Elementwise kernels over strided, broadcast operands, f32 and f64 on SIMD. Not for: shape or dtype checks (the ops
// do those), reductions (reduce.h), moving data without change (copy.h).
//
// For all of them: operands broadcast to y's shape as in NumPy (the caller has checked that they do); y may have any
// strides, and may be exactly the same elements as an operand of its dtype. The value of an element does not depend on
// its place, on the strides, or on the number of threads.
#pragma once

#include <capstan/autograd/view.h>

#include <cstdint>

namespace capstan::kernels {

/// y = f(x), f32 or f64, same dtype. abs, neg, sign, square, relu also take i32.
/// Accuracy: exp, log, tanh, sin, cos, sigmoid and its slope, softplus within 4 ulp of the exact value, silu too where
/// sigmoid(x) is not subnormal; silu_slope to a few ulp of its larger term; the GELUs relatively to 1e-5 (f32) and 1e-13
/// (f64) for |x| ≤ 9, less in the tails beyond; erf and erfc are libm's, the rest correctly rounded (rsqrt: twice).
/// NaN stays NaN; infinities, zeros and subnormals give what IEEE 754 asks for.
enum class Unary : std::uint8_t {
  neg,
  abs,
  sign,        // −1, 0 or 1; NaN stays
  square,      // x²
  reciprocal,  // 1 / x
  sqrt,
  rsqrt,  // 1 / sqrt(x)
  exp,
  log,
  tanh,
  sin,
  cos,
  erf,
  erfc,
  relu,           // max(x, 0); NaN stays
  sigmoid,        // 1 / (1 + exp(−x))
  sigmoid_slope,  // sigmoid(x) · sigmoid(−x)
  softplus,       // log(1 + exp(x))
  silu,           // x · sigmoid(x); −0 at −∞
  silu_slope,     // d silu / dx
  gelu_tanh,  // x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³): no cancellation in the negative tail; −0 at −∞
  gelu_erf,   // x/2 · erfc(−x/√2): likewise
  gelu_tanh_slope,  // d gelu_tanh / dx
  gelu_erf_slope,   // d gelu_erf / dx
};
void unary(Unary op, ConstView x, View y);

/// y = a · f(x), f32 or f64, in one pass; y may be the very elements of a.
void unary_times(Unary op, ConstView x, ConstView a, View y);

/// h = gelu_tanh(x) and dx ← dx · gelu_tanh'(x), from one sigmoid; all row-major, f32 or f64. The bits are unary()'s.
void gelu_tanh_and_gradient(ConstView x, View h, View dx);

/// y = a op b, all of one dtype: f32, f64 (all of them) or i32 (not div, pow and mul_slope; wraps around). minimum and
/// maximum give NaN if either is NaN. pow is libm's. mul_slope is mul, but 0 · ±∞ = 0.
enum class Binary : std::uint8_t { add, sub, mul, div, minimum, maximum, pow, mul_slope };
void binary(Binary op, ConstView a, ConstView b, View y);

/// y (boolean) = a op b, a and b of one dtype (any). NaN is unequal to everything and not ordered.
enum class Compare : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
void compare(Compare op, ConstView a, ConstView b, View y);

/// y = a op b, all boolean.
enum class Logical : std::uint8_t { logical_and, logical_or, logical_xor };
void logical(Logical op, ConstView a, ConstView b, View y);
/// y = not x, both boolean.
void logical_not(ConstView x, View y);

/// y = x · scale + shift (two roundings), f32 or f64.
void affine(ConstView x, double scale, double shift, View y);
/// y = min(max(x, low), high), f32 or f64; NaN stays NaN. An infinite bound is no bound.
void clamp(ConstView x, double low, double high, View y);

/// y = condition ? a : b, a selection and never a product: the side that is not taken does not matter, even if it is
/// NaN. condition is boolean; a, b and y have one dtype (any).
void where(ConstView condition, ConstView a, ConstView b, View y);

/// y = x in y's dtype (any to any). Floats to i32 truncate towards zero and saturate, NaN becomes 0; anything but 0
/// (NaN too) becomes true.
void cast(ConstView x, View y);

}  // namespace capstan::kernels
