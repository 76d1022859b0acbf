// Attention by its definition, in double precision and without a library op: what all paths are compared with.
#pragma once

#include <capstan/ops/mask.h>
#include <capstan/ops/rearrange.h>

#include <cmath>
#include <vector>

namespace capstan::test {

/// The output [B, H, Tq, Dv], row-major. `keep` and `bias` broadcast to [B, H, Tq, Tk] where they are defined; a row
/// without keys is 0; a weight of 0 takes no value.
inline std::vector<double> naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep = {},
                                           const Tensor& bias = {}, double scale = 0) {
  const Index B = q.size(0), H = q.size(1), Tq = q.size(2), D = q.size(3), group = H / k.size(1), Tk = k.size(2),
              Dv = v.size(3);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(D));
  const auto flat = [&](const Tensor& x) {
    return x.defined() ? broadcast_to(x.detach(), Shape{B, H, Tq, Tk}).to_doubles() : std::vector<double>();
  };
  const std::vector<double> qs = q.to_doubles(), ks = k.to_doubles(), vs = v.to_doubles(), kept = flat(keep),
                            added = flat(bias);
  const auto at = [](const std::vector<double>& x, Index i) { return x[static_cast<std::size_t>(i)]; };
  std::vector<double> output;
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < Tq; ++i) {
        const Index row = (b * H + h) * Tq + i, key_head = (b * H + h) / group;
        std::vector<double> weights;
        double total = 0;
        for (Index j = 0; j < Tk; ++j) {
          double score = bias.defined() ? at(added, row * Tk + j) : 0;
          for (Index d = 0; d < D; ++d) score += scale * at(qs, row * D + d) * at(ks, (key_head * Tk + j) * D + d);
          weights.push_back(!keep.defined() || at(kept, row * Tk + j) != 0 ? std::exp(score) : 0);
          total += weights.back();
        }
        for (Index d = 0; d < Dv; ++d) {
          double value = 0;
          for (Index j = 0; j < Tk; ++j)
            if (at(weights, j) != 0) value += at(weights, j) / total * at(vs, (key_head * Tk + j) * Dv + d);
          output.push_back(value);
        }
      }
  return output;
}

}  // namespace capstan::test
