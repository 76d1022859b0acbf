// What the losses share: class targets, their weights, and the last sum. Internal to the ops layer.
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/reduction.h>

#include <optional>
#include <string_view>

namespace capstan::ops {

/// x with a last axis of size 1, to broadcast against classes.
Tensor column(const Tensor& x);

/// The ignored target; nothing if no i32 can have that value.
std::optional<Index> possible_ignore(std::optional<Index> ignore);

/// An Error unless `weights` [V = classes] are constants of x's dtype, finite and not negative.
void require_class_weights(std::string_view op, const char* argument, const Tensor& x, Index classes,
                           const Tensor& weights);

/// What a mean over tokens divides by: the weights of the targets that are not ignored, summed (without weights: their
/// number). The targets are known to be ids.
double kept_weight(const Tensor& targets, std::optional<Index> ignore, const Tensor& weights);

/// The losses by themselves, their sum, or that divided by `count` (0 with gradient 0 if it is 0).
Tensor reduced(const Tensor& losses, Reduction reduction, double count);

}  // namespace capstan::ops
