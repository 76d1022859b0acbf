// Choosing between values element by element, and changing the dtype. Not for: taking parts of a tensor (rearrange.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// condition ? a : b.   condition is boolean; a and b have one dtype (any); all three broadcast as in NumPy.
/// da = condition ? dy : 0, db = condition ? 0 : dy, summed back to their shapes.
///
/// A selection, never a product: what is not taken reaches neither value nor gradient *of where itself*, even if it is
/// NaN or ∞; exp and pow may overflow there. But the rule of the branch that was not taken still runs, with a cotangent of
/// 0, and where another function has a pole, it says 0 · ∞ = NaN:
///
///     where(x > 0.0, sqrt(x), 1.0)                      // x = 0: value 1, gradient NaN
///
/// So select inside, not outside: give the function an argument at which it is smooth.
///
///     const Tensor taken = x > 0.0;
///     where(taken, sqrt(where(taken, x, 1.0)), 1.0)     // x = 0: value 1, gradient 0
///
/// Errors: condition is not boolean; a and b differ in dtype; the shapes do not fit.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// A number stands for a scalar of the other side's dtype.
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

/// x with `value` where mask is true. **Here true means replaced**, as in other frameworks and unlike attention's masks,
/// where true means "may attend" (mask.h): for those, masked_fill(scores, logical_not(keep), −∞). mask is boolean and
/// broadcasts to x's shape, x has any dtype.   dx = mask ? 0 : dy: what was replaced reaches nothing, be it NaN.
/// masked_fill([1, 2, 3], [0, 1, 0], 9) = [1, 9, 3].
/// Errors: mask is not boolean, or does not broadcast to x's shape.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

/// x in another dtype; x itself if it has it already. Between f32 and f64 the gradient flows: dx = dy in x's dtype. Other
/// results are constants: floats become i32 by truncation towards 0 (saturated at its ends, NaN becomes 0), and anything
/// but 0 is true.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace capstan
