#include <capstan/ops/activation.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/elementwise_parts.h>
#include <capstan/ops/gelu_linear.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_parts.h>
#include <capstan/ops/matmul.h>

namespace capstan::ops {
namespace {

struct GeluLinear final : Op {
  static constexpr std::string_view name = "gelu_linear";

  Reads reads(Wanted wanted) const override {
    return Reads::in(0).when(wanted[0] || wanted[1]) | Reads::in(1).when(wanted[0]);
  }
  Types infer(Inputs in) const override { return infer_affine(name, in); }
  void eval(Inputs in, Outputs out) const override {
    Buffer h(in[0].shape(), in[0].dtype());
    kernels::unary(kernels::Unary::gelu_tanh, in[0].view(), h.view());
    affine_map(rows_of(Tensor(std::move(h))), in[1], in.size() == 3 ? in[2] : Tensor(), out[0]);
  }

  // h = gelu(x), y = h Wᵀ + b   ⇒   dh = dy W, dx = dh ⊙ gelu'(x), dW = Σ_rows dyᵀ h, db = Σ_rows dy
  Tensors vjp(const Call& call) const override {
    Tensors gradients = parameter_gradients(call, call.wants(1) ? gelu_tanh(call.in(0)) : Tensor());
    if (call.wants(0)) gradients[0] = matmul(call.dout(0), call.in(1)) * gelu_tanh_slope(call.in(0));
    return gradients;
  }

  Tensors vjp_kernel(const Call& call) const override {
    if (!call.wants(0) && !call.wants(1)) return parameter_gradients_by_kernel(call, Tensor());
    const Tensor x = call.in(0).dense();
    Buffer h(x.shape(), x.dtype());
    Tensor dx;
    if (call.wants(0)) {
      Buffer dh(x.shape(), x.dtype());
      product(rows_of(call.dout(0)), false, call.in(1), false, dh.view());
      kernels::gelu_tanh_and_gradient(x.view(), h.view(), dh.view());
      dx = std::move(dh);
    } else {
      kernels::unary(kernels::Unary::gelu_tanh, x.view(), h.view());
    }
    Tensors gradients = parameter_gradients_by_kernel(call, std::move(h));
    gradients[0] = std::move(dx);
    return gradients;
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor gelu_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined()) return ops::apply(ops::GeluLinear{}, x, weight);
  return ops::apply(ops::GeluLinear{}, x, weight, bias);
}

}  // namespace capstan
