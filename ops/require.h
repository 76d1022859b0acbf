// What ops ask of their inputs again and again, with one wording for all of them. Internal to the ops layer.
#pragma once

#include <capstan/autograd/op.h>

#include <string_view>

namespace capstan::ops {

[[noreturn]] void fail_not_float(std::string_view op, const char* argument, DType got);
[[noreturn]] void fail_dtype(std::string_view op, const char* argument, DType wanted, DType got);
[[noreturn]] void fail_mixed(std::string_view op, const char* a_name, const char* b_name, DType a, DType b);

/// `op: x must be f32 or f64; got i32; cast it first`.
inline void require_float(std::string_view op, const char* argument, DType got) {
  if (!is_float(got)) fail_not_float(op, argument, got);
}
inline void require_float(std::string_view op, const char* argument, const Tensor& x) {
  require_float(op, argument, x.dtype());
}

/// `op: condition must be bool; got f32; cast or compare it first`.
inline void require_dtype(std::string_view op, const char* argument, const Tensor& x, DType wanted) {
  if (x.dtype() != wanted) fail_dtype(op, argument, wanted, x.dtype());
}

/// `op: a and b must have one dtype; got f32 and f64; cast one of them`.
inline void require_same_dtype(std::string_view op, const char* a_name, const Tensor& a, const char* b_name,
                               const Tensor& b) {
  if (a.dtype() != b.dtype()) fail_mixed(op, a_name, b_name, a.dtype(), b.dtype());
}

/// An Error for an empty handle: for functions that look at x before they run an op.
void require_defined(std::string_view op, const char* argument, const Tensor& x);

/// True if NumPy's broadcasting stretches `from` to exactly `to`.
bool stretches(const Shape& from, const Shape& to);

}  // namespace capstan::ops
