// Scaled dot-product attention (Vaswani et al. 2017, §3.2.1): `attention`, one op that never holds the weights, and
// `attention_reference`, the same written from ops. Not for: projections and heads as a module (nn/attention.h).
#pragma once

#include <capstan/ops/dropout.h>
#include <capstan/ops/mask.h>

#include <optional>

namespace capstan {

/// Numbers added to the scores before softmax, broadcasting to [B, H, Tq, Tk]; differentiable. Not a mask: a type of its
/// own, so that neither can be passed for the other.
struct Bias {
  Tensor values = {};
};

struct AttentionOptions {
  Mask mask = {};
  Bias bias = {};
  /// Absent: 1/√D.
  std::optional<double> scale = std::nullopt;
  /// Of the weights, after softmax; element (b, h, i, j) of [B, H, Tq, Tk] has its row-major index. Absent: none.
  std::optional<Dropout> dropout = std::nullopt;
};

struct AttentionResult {
  Tensor output;   ///< [B, H, Tq, Dv]
  Tensor weights;  ///< [B, H, Tq, Tk]; before dropout: rows sum to 1, or are 0 where a query has no key
};

/// output = dropout(softmax(scale · q kᵀ + bias, where the mask allows)) · v, with q [B, H, Tq, D], k [B, Hkv, Tk, D] and
/// v [B, Hkv, Tk, Dv], f32 or f64. H is a multiple of Hkv: head h reads key head h / (H / Hkv).
///
/// Promises: a query that may attend to nothing gives output and gradients of exactly 0. A key that no query of its batch
/// and head may see reaches neither output nor gradient, even if NaN or infinity stands there. For finite values weights
/// of forbidden keys are exactly 0, and so is every derivative through them. Any size may be 0.
/// Errors: ranks, sizes or dtypes that do not fit; a mask that does not fit (mask.h); a bias that does not broadcast; a
/// dropout outside [0, 1).
AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

struct FusedAttentionResult {
  Tensor output;     ///< [B, H, Tq, Dv]
  Tensor logsumexp;  ///< [B, H, Tq]: log Σ_j exp(score) over the keys that a query may see; −∞ if there is none
};

/// The output of `attention_reference`, with its arguments, promises and errors, in tiles that stay in cache (Milakov and
/// Gimelshein 2018; Dao et al. 2022): memory grows with Tq + Tk, as does that of the gradient by q, k and v. A gradient by the
/// bias takes [B, H, Tq, Tk]; so do derivatives of higher order, and those of the logsumexp, which go by the reference.
/// Blocks that the mask forbids as a whole are skipped. The same bytes for any number of threads.
///
/// Where all scores of a query are −∞ by its bias, its output is 0, as if it had no key (softmax would say NaN).
/// Scores are kept times log₂e, so in f32 one beyond 2.3e38 counts as infinite; and gradients are made from the logsumexp,
/// whose rounding they carry: in f32 a relative error of some 1e-7 |logsumexp|.
/// q = 0, one key: output v, logsumexp 0.
FusedAttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

}  // namespace capstan
