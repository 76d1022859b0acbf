// What attention has read so far, kept between calls so that a sequence can be continued token by token. Not for:
// training (a whole sequence at once needs no cache).
#pragma once

#include <capstan/autograd/tensor.h>

#include <vector>

namespace capstan::nn {

/// Keys and values of one attention module, [B, Hkv, T, D] each; empty before the first call. A value: a copy is another
/// continuation of the same beginning.
struct KeyValueCache {
  Tensor keys = {}, values = {};

  /// T, the positions that are held.
  Index length() const { return keys.defined() ? keys.size(2) : 0; }
  /// Joins what follows, [B, Hkv, T', D]; an Error if batch, heads or sizes are others.
  void append(const Tensor& next_keys, const Tensor& next_values);
};

/// The caches of a model's blocks, and how many positions it has read.
struct ModelCache {
  std::vector<KeyValueCache> blocks = {};
  Index length = 0;
};

}  // namespace capstan::nn
