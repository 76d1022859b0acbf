// A user's op that has no name.
// Message: an op has a static constexpr std::string_view name
#include <capstan/autograd/op.h>

namespace capstan {

struct Twin final : Op {
#ifndef FAULT
  static constexpr std::string_view name = "twin";
#endif
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  Tensors vjp(const Call& call) const override { return {call.dout(0)}; }
};

Tensor twin(const Tensor& x) { return record(Twin{}, x)[0]; }

}  // namespace capstan
