// Losses between predictions and targets: negative log-likelihood, squares, binary cross-entropy, Kullback–Leibler. Each is
// composed of catalogue ops, so every order of derivative exists. Not for: logits and class ids (cross_entropy.h).
//
// All of them: f32 or f64, one dtype. Reduction `none` gives a loss for each token or element; `sum` and `mean` a scalar.
// The mean of nothing is 0, with gradient 0. Two tensors that are compared have one shape: a target [N] beside a prediction
// [N, 1] is an Error, not N² losses.
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/reduction.h>

#include <optional>

namespace capstan {

struct NllLossOptions {
  /// Tokens with this target count for nothing: loss 0, gradient exactly 0, be their log-probabilities NaN.
  std::optional<Index> ignore_index = std::nullopt;
  /// [V], a constant of the log-probabilities' dtype: the weight of each class; empty: 1. A token of weight 0 counts for
  /// nothing, like an ignored one.
  Tensor weights = {};
  Reduction reduction = Reduction::mean;
};

/// loss = −w_t p_t for each token with target t: log_probabilities p [..., V], as log_softmax gives them (the classes are the
/// last axis), targets [...] i32, weights w. The mean divides by the sum of the weights of the targets that are not ignored.
/// nll_loss(log_softmax(x), t) = cross_entropy(x, t); the latter is faster.   nll_loss([[−3, −0.05]], [0]) = 3.
/// Errors: a target outside [0, V) that is not ignored (named, with its place); shapes or dtypes; weights that are recorded,
/// negative or not finite.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllLossOptions& options = {});

/// (x − y)² for each element; the mean divides by their number.   mse_loss([1, 2], [1, 4]) = 2.
/// Errors: x and y differ in shape or dtype.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);

struct BinaryCrossEntropyOptions {
  /// w, broadcasts to the logits' shape: the weight of each loss; empty: 1. The mean still divides by the number of elements.
  Tensor weights = {};
  /// p, broadcasts to the logits' shape: a factor of the positive part, above 1 for more recall; empty: 1.
  Tensor positive_weight = {};
  Reduction reduction = Reduction::mean;
};

/// loss = −w (p t log σ(x) + (1 − t) log(1 − σ(x))) for each element: finite logits x, targets t in [0, 1] of one shape
/// (t outside of it is not refused). Computed as w (p t softplus(−x) + (1 − t) softplus(x)), a sum of positive terms, which
/// neither overflows nor cancels; for p = 1 it equals max(x, 0) − x t + log(1 + e^−|x|), its slope σ(x) − t. Differentiable in
/// all arguments.   Logits (1000, −1000) with targets (0, 1): 1000 each, the slopes 1 and −1.
/// Errors: logits and targets differ in shape or dtype; a weight that does not broadcast to the logits' shape.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  /// True: the targets are log-probabilities too.
  bool log_target = false;
  Reduction reduction = Reduction::mean;
};

/// The terms of D(t ‖ eˣ) (Kullback and Leibler 1951), elementwise: t (log t − x), or eᵗ (t − x) with log_target, for
/// log-probabilities x and targets t of one shape. A target of probability 0 gives 0, and gradients of 0, whatever x is there.
/// Differentiable in both; a negative t gives NaN.   `mean` divides by the number of *elements*: the divergence of
/// distributions in rows [N, V], averaged over rows ("batchmean"), is the sum / N.   kl_div([log ½], [1]) = log 2.
/// Errors: they differ in shape or dtype.
Tensor kl_div(const Tensor& log_probabilities, const Tensor& targets, const KlDivOptions& options = {});

}  // namespace capstan
