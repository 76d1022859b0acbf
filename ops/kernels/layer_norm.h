// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the last axis, forward and backward in one pass
// each. Not for: other axes.
//
// All views have one dtype, f32 or f64. x, r, dy [..., C] may have any strides; weight and bias are [C]; mean and rstd have
// one element a row. Outputs are row-major. An optional view is absent when its `layout` is null (`View{}`).
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// mean = Σx/C, rstd = 1/√(Σ(x − mean)²/C + eps), y = (x − mean) · rstd · weight + bias. Two passes, accumulated in f64:
/// rows far from 0 lose nothing. weight, bias, mean and rstd are optional.
void layer_norm(ConstView x, ConstView weight, ConstView bias, double eps, View y, View mean, View rstd);

/// sum = x + r, and layer_norm of the sum.
void add_layer_norm(ConstView x, ConstView r, ConstView weight, ConstView bias, double eps, View sum, View y, View mean,
                    View rstd);

/// With x̂ = (x − mean) · rstd and g = dy · weight:
///   dx = rstd · (g − mean_c(g) − x̂ · mean_c(g · x̂)),  dweight = Σ_rows dy · x̂,  dbias = Σ_rows dy.
/// weight is optional (absent: 1), and so are dx, dweight and dbias (absent: not wanted). With `add_to_dx` dx is added to
/// what its memory holds.
void layer_norm_backward(ConstView x, ConstView weight, ConstView mean, ConstView rstd, ConstView dy, View dx,
                         View dweight, View dbias, bool add_to_dx = false);

/// The same about 0 in place of the mean: rstd = 1/√(Σx²/C + eps), y = x · rstd · weight. f32 squares are summed in f32
/// over 1024 elements at a time: where that overflows rstd is 0, and so is y. weight and rstd are optional.
void rms_norm(ConstView x, ConstView weight, double eps, View y, View rstd);

/// With x̂ = x · rstd and g = dy · weight:   dx = rstd · (g − x̂ · mean_c(g · x̂)),  dweight = Σ_rows dy · x̂.
/// weight, dx and dweight are optional; `add_to_dx` as above.
void rms_norm_backward(ConstView x, ConstView weight, ConstView rstd, ConstView dy, View dx, View dweight,
                       bool add_to_dx = false);

}  // namespace capstan::kernels
