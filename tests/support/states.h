// Named tensors compared bit by bit. Not for: comparisons with a tolerance (golden.h).
#pragma once

#include <capstan/nn/state_dict.h>

#include <cstring>
#include <string>

namespace capstan::test {

/// Same shape, dtype and bytes.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.dense(), y = b.dense();
  return visit_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return x.elements() == 0 || std::memcmp(x.data<T>().data(), y.data<T>().data(), x.data<T>().size_bytes()) == 0;
  });
}

/// "" or the names in which two states differ.
inline std::string difference(const nn::StateDict& a, const nn::StateDict& b) {
  std::string names;
  for (const auto& [name, x] : a)
    if (const auto other = b.find(name); other == b.end() || !same_bits(x, other->second)) names += name + " ";
  for (const auto& [name, x] : b)
    if (!a.contains(name)) names += name + " ";
  return names;
}

/// The same for two modules of one type.
template <class Module>
std::string difference(const Module& a, const Module& b) {
  return difference(nn::state_dict(a), nn::state_dict(b));
}

}  // namespace capstan::test
