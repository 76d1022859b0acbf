// The backward kernel of tanh. Not for: tanh itself (elementwise.h).
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// dx = dy ⊙ (1 − y²), y being tanh(x). One dtype, f32 or f64; y and dy broadcast to dx's shape, any strides.
void tanh_backward(ConstView y, ConstView dy, View dx);

}  // namespace capstan::kernels
