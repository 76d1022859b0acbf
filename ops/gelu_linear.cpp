#include <capstan/ops/activation.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/elementwise_parts.h>
#include <capstan/ops/gelu_linear.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_parts.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

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
    const Tensor& dy = call.dout(0);
    const Shape weight = call.in_shape(1);
    Tensors gradients;
    gradients.resize(call.inputs());
    if (call.wants(0)) gradients[0] = matmul(dy, call.in(1)) * gelu_tanh_slope(call.in(0));
    if (call.wants(1)) {
      const Index rows = call.in_shape(0).drop_back().elements();
      gradients[1] = matmul(transpose(reshape(dy, Shape{rows, weight[0]})),
                            reshape(gelu_tanh(call.in(0)), Shape{rows, weight[1]}));
    }
    if (call.inputs() == 3 && call.wants(2)) gradients[2] = sum_to(dy, Shape{weight[0]});
    return gradients;
  }

  Tensors vjp_kernel(const Call& call) const override {
    const Tensor dy = rows_of(call.dout(0));
    Tensors gradients;
    gradients.resize(call.inputs());
    if (call.inputs() == 3 && call.wants(2)) gradients[2] = sum_of_rows(dy);
    if (!call.wants(0) && !call.wants(1)) return gradients;
    const Tensor x = call.in(0).dense();
    Buffer h(x.shape(), x.dtype());
    if (call.wants(0)) {
      Buffer dx(x.shape(), x.dtype());
      product(dy, false, call.in(1), false, dx.view());
      kernels::gelu_tanh_and_gradient(x.view(), h.view(), dx.view());
      gradients[0] = std::move(dx);
    } else {
      kernels::unary(kernels::Unary::gelu_tanh, x.view(), h.view());
    }
    if (call.wants(1)) gradients[1] = gradient_product(call, 1, dy, true, rows_of(Tensor(std::move(h))));
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
