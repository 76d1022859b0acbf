// Rotary position embedding (Su et al. 2021, "RoFormer", §3.2.2): queries and keys turned by their positions, so that their
// products depend on how far apart they stand. Not for: positions that are added (positions.h, learned tables).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

// x [..., T, D] → the same shape, f32 or f64, D even. The pair i of D / 2 turns by the angle
// position · base^(−2i / D):   (a, b) → (a cos − b sin, b cos + a sin).   dx = dy turned back.
// Angles are computed in f64 in either case. Position 0 is the identity for finite x. Which elements make a pair is a convention that
// weights are trained with, so it stands in the names.
// Errors: x has less than two axes, an odd D, or is not f32 or f64; base is not positive and finite; positions are not
// i32 [T].

struct RotaryOptions {
  /// The row t of x stands at start + t.
  Index start = 0;
  double base = 10000;
};

/// Elements i and i + D/2 are a pair (LLaMA as Hugging Face stores it, GPT-NeoX).
/// rotary_half_split(tensor({{1, 0}}), {.start = 1}) = [[cos 1, sin 1]] = [[0.5403023, 0.8414710]].
Tensor rotary_half_split(const Tensor& x, const RotaryOptions& options = {});
/// The row t of x stands at positions[t].
Tensor rotary_half_split(const Tensor& x, const Tensor& positions, double base = 10000);

/// Elements 2i and 2i + 1 are a pair (the paper; LLaMA as Meta stores it).
Tensor rotary_adjacent_pairs(const Tensor& x, const RotaryOptions& options = {});
Tensor rotary_adjacent_pairs(const Tensor& x, const Tensor& positions, double base = 10000);

}  // namespace capstan
