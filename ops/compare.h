// Comparisons and logic: boolean tensors, element by element. Not for: choosing between values by them (select.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

// Results are boolean and constant: a comparison has no gradient and is never recorded. Shapes broadcast as in NumPy.

// ---- comparisons of two tensors of one dtype (any) ------------------------------------------------------------------
// NaN is unequal to everything and not ordered. Errors: the dtypes differ; the shapes do not fit.

Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

// ---- comparisons with a number --------------------------------------------------------------------------------------
// The number is rounded to a's dtype first (so equal(x, 0.1) finds the f32 nearest to 0.1). An Error if a is i32 or boolean
// and the number is none of its values.

Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);

inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }

// ---- logic of boolean tensors; any other dtype is an Error ----------------------------------------------------------

Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

}  // namespace capstan
