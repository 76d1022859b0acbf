// How the catalogue's own functions run their ops: `record`, and a check at compile time that the op is listed.
#pragma once

#include <capstan/autograd/op.h>
#include <capstan/ops/catalog.h>

namespace capstan::ops {

/// All outputs of a catalogue op.
template <class O, class... T>
Tensors apply_all(const O& op, const T&... inputs) {
  static_assert(listed(O::name), "capstan: this op is not listed in ops/catalog.h");
  return record(op, inputs...);
}

/// The first output.
template <class O>
Tensor apply(const O& op, Inputs inputs) {
  static_assert(listed(O::name), "capstan: this op is not listed in ops/catalog.h");
  return detail::record_first(op, detail::info_of<O>(), inputs);
}
template <class O, class... T>
requires(std::is_same_v<T, Tensor>&&...) Tensor apply(const O& op, const T&... inputs) {
  const Tensor* const pointers[] = {&inputs...};
  return apply(op, Inputs(pointers, static_cast<int>(sizeof...(T))));
}

}  // namespace capstan::ops
