// Arithmetic and elementary functions, element by element. Not for: activations (activation.h), comparisons (compare.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

// ---- two operands ---------------------------------------------------------------------------------------------------
// Shapes broadcast as in NumPy: aligned at the last axis, sizes equal or 1. Both operands have one dtype, f32 or f64; add,
// sub and mul also take i32 (which wraps around and is never recorded). Errors: the dtypes differ; the shapes do not fit.
// The gradient of a stretched operand is summed back to its shape. An addition or subtraction keeps no value for backward.

/// a + b.   da = dy, db = dy.   add([2, 1], [3]) → [2, 3].
Tensor add(const Tensor& a, const Tensor& b);
/// a − b.   da = dy, db = −dy.
Tensor sub(const Tensor& a, const Tensor& b);
/// a ⊙ b.   da = dy ⊙ b, db = dy ⊙ a.
Tensor mul(const Tensor& a, const Tensor& b);
/// a / b, f32 or f64.   da = dy / b, db = −dy ⊙ y / b.   Division by 0 gives what IEEE 754 says (±∞, NaN).
Tensor div(const Tensor& a, const Tensor& b);
/// min(a, b), f32 or f64; NaN if either is NaN.   dy goes to the smaller operand; equal ones get half each; where either is
/// NaN, both gradients are 0.   minimum([1, 5], [3, 2]) = [1, 2].
Tensor minimum(const Tensor& a, const Tensor& b);
/// max(a, b), f32 or f64; NaN if either is NaN.   dy goes to the larger operand; equal ones get half each; where either is
/// NaN, both gradients are 0.   maximum([1, 5], [3, 2]) = [3, 5].
Tensor maximum(const Tensor& a, const Tensor& b);

// ---- one operand, f32 or f64 ----------------------------------------------------------------------------------------

/// −x; i32 too.   dx = −dy.
Tensor neg(const Tensor& x);
/// x · factor + shift, both rounded to x's dtype first.   dx = factor · dy.   scale(3, 2, 1) = 7.
Tensor scale(const Tensor& x, double factor, double shift = 0);
/// |x|.   dx = dy ⊙ sign(x), which is 0 at 0 (and at NaN).
Tensor abs(const Tensor& x);
/// eˣ.   dx = dy ⊙ y.
Tensor exp(const Tensor& x);
/// Natural logarithm; −∞ at 0, NaN below.   dx = dy / x.
Tensor log(const Tensor& x);
/// dx = dy ⊙ (1 − y²).
Tensor tanh(const Tensor& x);
/// √x; NaN below 0.   dx = dy / 2y, which is ±∞ at 0 (NaN if dy is 0 there): see where() for the safe form.
Tensor sqrt(const Tensor& x);
/// 1/√x; ∞ at 0, NaN below.   dx = −dy ⊙ y³ / 2.   rsqrt(4) = 0.5.
Tensor rsqrt(const Tensor& x);
/// x^exponent, the exponent rounded to x's dtype.   dx = dy ⊙ exponent · x^(exponent − 1).   As C's pow: 1 for the exponent
/// 0, be x NaN; NaN for negative x unless the exponent is whole. Whole exponents ≥ 0 have finite derivatives of every order
/// at 0; others have an infinite one there sooner or later. A dy of 0 times an infinite slope is 0, so a power that is not
/// taken (where) may overflow.   pow(−2, 3) = −8.   An Error unless the exponent is finite.
Tensor pow(const Tensor& x, double exponent);
/// σ(x) = 1 / (1 + e⁻ˣ), without overflow.   dx = dy ⊙ σ(x) σ(−x): as y (1 − y) it would lose all digits for large x, where
/// y rounds to 1.   sigmoid(0) = 0.5; sigmoid(40) is 1 in f64, its slope 4.248e−18.
Tensor sigmoid(const Tensor& x);
/// x in radians.   dx = dy ⊙ cos x.
Tensor sin(const Tensor& x);
/// x in radians.   dx = −dy ⊙ sin x.
Tensor cos(const Tensor& x);
/// The error function 2/√π ∫₀ˣ exp(−t²) dt.   dx = dy ⊙ 2/√π exp(−x²).
Tensor erf(const Tensor& x);
/// 1 − erf(x) without cancellation for large x.   dx = −dy ⊙ 2/√π exp(−x²).
Tensor erfc(const Tensor& x);
/// min(max(x, low), high); an infinite bound is no bound, NaN stays NaN.   dx = dy where low ≤ x ≤ high (at the bounds
/// too), else 0.   An Error unless low ≤ high.
Tensor clamp(const Tensor& x, double low, double high);

// ---- operators ------------------------------------------------------------------------------------------------------
// A number stands for a scalar of the tensor's dtype. x + 1.0, x - 1.0, 1.0 - x and 2.0 * x are scale(); x / 3.0 and
// 1.0 / x are true divisions.

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

inline Tensor operator+(const Tensor& x, double number) { return scale(x, 1, number); }
inline Tensor operator+(double number, const Tensor& x) { return scale(x, 1, number); }
inline Tensor operator-(const Tensor& x, double number) { return scale(x, 1, -number); }
inline Tensor operator-(double number, const Tensor& x) { return scale(x, -1, number); }
inline Tensor operator*(const Tensor& x, double number) { return scale(x, number); }
inline Tensor operator*(double number, const Tensor& x) { return scale(x, number); }
Tensor operator/(const Tensor& x, double number);
Tensor operator/(double number, const Tensor& x);

}  // namespace capstan
