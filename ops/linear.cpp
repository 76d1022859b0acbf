#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_parts.h>
#include <capstan/ops/matmul.h>

namespace capstan::ops {
namespace {

struct Linear final : Op {
  static constexpr std::string_view name = "linear";

  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }

  Types infer(Inputs in) const override { return infer_affine(name, in); }
  void eval(Inputs in, Outputs out) const override {
    affine_map(rows_of(in[0]), in[1], in.size() == 3 ? in[2] : Tensor(), out[0]);
  }

  // y = x Wᵀ + b   ⇒   dx = dy W, dW = Σ_rows dyᵀ x, db = Σ_rows dy
  Tensors vjp(const Call& call) const override {
    Tensors gradients = parameter_gradients(call, call.wants(1) ? call.in(0) : Tensor());
    if (call.wants(0)) gradients[0] = matmul(call.dout(0), call.in(1));
    return gradients;
  }

  Tensors vjp_kernel(const Call& call) const override {
    Tensors gradients = parameter_gradients_by_kernel(call, call.wants(1) ? call.in(0) : Tensor());
    if (call.wants(0)) gradients[0] = gradient_product(call, 0, rows_of(call.dout(0)), false, call.in(1));
    return gradients;
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined()) return ops::apply(ops::Linear{}, x, weight);
  return ops::apply(ops::Linear{}, x, weight, bias);
}

}  // namespace capstan
