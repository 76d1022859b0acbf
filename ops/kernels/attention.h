// Scaled dot-product attention in tiles, forward and backward, without a T × T matrix. Not for: checks of shapes or the
// meaning of masks (ops/attention and ops/mask do those).
#pragma once

#include <capstan/autograd/random.h>
#include <capstan/autograd/view.h>

#include <optional>

namespace capstan::kernels {

/// What forward and backward are given. f32 or f64, one dtype for q, k, v and bias; any strides. A view without a layout
/// stands for none.
struct AttentionProblem {
  ConstView q;  ///< [B, H, Tq, D]
  ConstView k;  ///< [B, Hkv, Tk, D]; head h of q reads head h / (H / Hkv)
  ConstView v;  ///< [B, Hkv, Tk, Dv]
  double scale = 1;
  /// Query i may see key j only if low ≤ j − i ≤ high.
  Index low = 0, high = 0;
  ConstView lengths = {};            ///< [B] i32, each in [0, Tk]: batch b has the keys j < lengths[b]
  ConstView keep = {};               ///< boolean, stretched to [B, H, Tq, Tk]: true where a query may see a key
  ConstView bias = {};               ///< stretched to [B, H, Tq, Tk]; added to the scaled scores
  std::optional<Keep> dropout = {};  ///< which weights are kept, by row-major index in [B, H, Tq, Tk]
  double dropout_factor = 1;         ///< of those that are
};

/// out [B, H, Tq, Dv] = dropout(softmax(scale · q kᵀ + bias, where allowed)) · v, logsumexp [B, H, Tq] of those scores.
/// A row without keys is 0, and its logsumexp −∞. A key that no query of its batch and group of heads may see is not read,
/// or is taken as 0. The last axes of the results are dense. The same bytes for any thread count; memory grows with T.
void attention(const AttentionProblem& problem, View out, View logsumexp);

/// The gradients of ⟨dout, out⟩, from what `attention` returned; those without a layout are not wanted. dbias is
/// [B, H, Tq, Tk], row-major.
void attention_backward(const AttentionProblem& problem, ConstView out, ConstView logsumexp, ConstView dout, View dq,
                        View dk, View dv, View dbias);

}  // namespace capstan::kernels
