// An op of the library that the catalogue does not list.
// Message: is not listed in ops/catalog.h
#include <capstan/ops/apply.h>

namespace capstan::ops {

struct Twin final : Op {
#ifdef FAULT
  static constexpr std::string_view name = "twin";
#else
  static constexpr std::string_view name = "neg";
#endif
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  Tensors vjp(const Call& call) const override { return {call.dout(0)}; }
};

Tensor twin(const Tensor& x) { return apply(Twin{}, x); }

}  // namespace capstan::ops
