// The loss of a classifier: cross-entropy of logits and class ids. Not for: probabilities as targets.
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/reduction.h>

#include <optional>

namespace capstan {

struct CrossEntropyOptions {
  /// Tokens with this target count for nothing: loss 0, gradient exactly 0, their logits are not read.
  std::optional<Index> ignore_index = std::nullopt;
  /// s in [0, 1]: the target distribution is q = (1 − s) · onehot(target) + s / V.
  double label_smoothing = 0;
  /// w [V], a constant of the logits' dtype: the weight of each class; empty: 1.
  Tensor weights = {};
  Reduction reduction = Reduction::mean;
};

/// loss = −Σ_c w_c q_c log softmax(logits)_c for each token: logits [..., V] f32 or f64, targets [...] i32. Reduction `none`
/// gives [...]; `sum` and `mean` a scalar; the mean divides by the sum of the class weights of the targets that are not
/// ignored (without weights: by their number), and is 0, with gradient 0, if that is 0.
/// cross_entropy(tensor({{0, 0}}), tensor({1}, DType::i32)) = log 2.
/// Errors: a target outside [0, V) that is not ignored (named, with its place); shapes or dtypes; smoothing outside [0, 1];
/// weights that are recorded, negative or not finite.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

}  // namespace capstan
