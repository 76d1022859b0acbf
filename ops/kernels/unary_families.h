// How unary ops are spread over files, each small enough to compile quickly for every target. Not for: users.
#pragma once

#include <capstan/ops/kernels/element_loop.h>
#include <capstan/ops/kernels/elementwise.h>

namespace capstan::kernels {

/// Applies one op to one dense piece.
using UnaryKernel = void (*)(Unary op, DType dtype, const Piece& piece);

UnaryKernel unary_simple();  // neg, abs, sign, square, reciprocal, sqrt, rsqrt, relu
UnaryKernel unary_exp();     // exp, log, tanh, sigmoid, softplus, silu, slopes
UnaryKernel unary_gelu();    // gelu_tanh, gelu_tanh_slope
UnaryKernel unary_trig();    // sin, cos
UnaryKernel unary_libm();    // erf, erfc, gelu_erf, gelu_erf_slope

}  // namespace capstan::kernels
