// The head and the loss of a language model as one op. Not for: heads whose logits are wanted too (linear.h).
#pragma once

#include <capstan/ops/cross_entropy.h>

namespace capstan {

/// cross_entropy(linear(x, table), targets, options) that holds only some rows of logits at a time: x [..., C] and
/// table [V, C] f32 or f64, targets [...] i32; reduction `mean` or `sum`, a scalar.
/// Where x or table is recorded, its gradient is made along with the loss, while a row's logits are at hand, and kept until
/// backward, which has nothing left to multiply: logits are neither kept nor computed twice.
/// linear_cross_entropy(tensor({{1, 2}}), tensor({{0, 0}, {0, 0}}), tensor({1}, DType::i32)) = log 2.
/// Errors: as linear's and cross_entropy's; reduction `none`.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& table, const Tensor& targets,
                            const CrossEntropyOptions& options = {});

/// All outputs of the op: the loss and its gradients, recorded or not. They can be differentiated like any other output.
struct LinearCrossEntropyOutputs {
  Tensor loss;
  Tensor dx;
  Tensor dtable;
};
LinearCrossEntropyOutputs linear_cross_entropy_outputs(const Tensor& x, const Tensor& table, const Tensor& targets,
                                                       const CrossEntropyOptions& options = {});

}  // namespace capstan
