#include <capstan/autograd/format.h>
#include <capstan/nn/cache.h>
#include <capstan/ops/rearrange.h>

namespace capstan::nn {

void KeyValueCache::append(const Tensor& next_keys, const Tensor& next_values) {
  if (!keys.defined()) {
    keys = next_keys;
    values = next_values;
    return;
  }
  const Shape &held = keys.shape(), &next = next_keys.shape();
  if (held[0] != next[0] || held[1] != next[1] || held[3] != next[3])
    fail("KeyValueCache: what follows must be [B, H, T, D] like the keys held, {}; got {}; start with an empty cache",
         held, next);
  Tensor all_keys = concat({keys, next_keys}, 2), all_values = concat({values, next_values}, 2);
  keys = std::move(all_keys);
  values = std::move(all_values);
}

}  // namespace capstan::nn
