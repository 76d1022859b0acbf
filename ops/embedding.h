// Rows of a table by id, and the transpose, which adds rows back. Not for: the module with its table (nn/embedding.h).
#pragma once

#include <capstan/autograd/tensor.h>

#include <optional>

namespace capstan {

/// y[i..., :] = table[ids[i...], :]: table [V, C] f32 or f64, ids [...] i32 → y [..., C]. The row `padding_id`, if given,
/// is read like any other, but gets a gradient of exactly 0.
/// Errors: an id outside [0, V) (named, with its place); padding_id outside [0, V); table not 2-D or not a float;
/// ids not i32.
Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<Index> padding_id = std::nullopt);

/// table[v, :] = Σ over places i with ids[i] = v of x[i, :]: x [..., C], ids [...] i32 → table [rows, C], summed in order
/// of place in f64 and rounded once. Places whose id is `padding_id` add nothing. It is the transpose of `embedding`.
/// Errors: an id outside [0, rows); padding_id outside [0, rows); x's leading axes are not ids' shape.
Tensor embedding_transpose(const Tensor& x, const Tensor& ids, Index rows,
                           std::optional<Index> padding_id = std::nullopt);

}  // namespace capstan
