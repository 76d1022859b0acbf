// Where tokens stand, as constants to be added: sinusoids to embeddings, ALiBi to the scores of attention. Not for: rotary
// embeddings, which turn queries and keys (rotary.h).
#pragma once

#include <capstan/ops/attention.h>

namespace capstan {

struct SinusoidalOptions {
  /// The position of row 0.
  Index start = 0;
  double base = 10000;
};

/// [length, width]: row t is sin(p · base^(−2i / width)) in column 2i and the cosine of the same in column 2i + 1, with
/// p = start + t (Vaswani et al. 2017, §3.5). Computed in f64.
/// sinusoidal_positions(2, 2) = [[0, 1], [sin 1, cos 1]] = [[0, 1], [0.8414710, 0.5403023]].
/// Errors: a negative size; base is not positive and finite; dtype is not f32 or f64.
Tensor sinusoidal_positions(Index length, Index width, const SinusoidalOptions& options = {}, DType dtype = DType::f32);

/// [heads]: 2^(−8/heads), 2^(−16/heads), … down to 2^−8 (Press et al. 2022, §3). If heads is no power of two: those of the
/// power n below it, then every other one of 2n, as the authors' code has it.   alibi_slopes(4) = [1/4, 1/16, 1/64, 1/256].
/// Errors: heads is negative; dtype is not f32 or f64.
Tensor alibi_slopes(Index heads, DType dtype = DType::f32);

/// The bias of attention −slope_h · |j − p| for query i and key j, as [heads, queries, keys], where p = i + keys − queries:
/// the last query stands at the last key (Align::bottom_right). Where causal attention looks, j ≤ p, that is the paper's
/// slope · (j − p).   alibi_bias(1, 1, 3) = −[2, 1, 0] / 256.   Errors: as alibi_slopes; a negative size.
Bias alibi_bias(Index heads, Index queries, Index keys, DType dtype = DType::f32);

}  // namespace capstan
