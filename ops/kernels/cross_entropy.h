// Cross-entropy of logits and class ids, row by row. Not for: reductions over rows or checks of ids (the op does those;
// see find_outside in embedding.h).
//
// logits [..., V] f32 or f64, any strides; targets [...] i32, any strides, each in [0, V) or equal to `ignore`.
// q = (1 − smoothing) · onehot(target) + smoothing / V. weights w [V] of the logits' dtype, any stride; 1 if their `layout`
// is null.
#pragma once

#include <capstan/autograd/view.h>

#include <cstdint>

namespace capstan::kernels {

/// loss [...] = −Σ_c w_c q_c log softmax(logits)_c, row-major; exactly 0 for ignored rows, which are not read.
/// A class of weight 0 counts for nothing, be its logit −∞.
void cross_entropy(ConstView logits, ConstView targets, ConstView weights, std::int64_t ignore, double smoothing,
                   View loss);

/// dlogits [..., V] = dloss · (Σ_c w_c q_c · softmax(logits) − w ⊙ q); exactly 0 in ignored rows. dloss [...] may have any strides.
/// dlogits may be the very elements of row-major logits. Computes the softmax anew instead of reading a saved log-sum-exp:
/// as exp(logits − logsumexp) it would lose as many digits as the logits are large.
void cross_entropy_backward(ConstView logits, ConstView targets, ConstView weights, std::int64_t ignore,
                            double smoothing, ConstView dloss, View dlogits);

/// Both in one pass: loss [...], and in place of row-major logits scale · dloss/dlogits, the same scale for all rows.
void cross_entropy_in_place(View logits, ConstView targets, ConstView weights, std::int64_t ignore, double smoothing,
                            double scale, View loss);

}  // namespace capstan::kernels
