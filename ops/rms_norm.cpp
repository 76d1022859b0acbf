#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gradient_sum.h>
#include <capstan/ops/kernels/layer_norm.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/rms_norm.h>

#include <optional>

namespace capstan::ops {
namespace {

struct RmsNorm final : Op {
  static constexpr std::string_view name = "rms_norm";
  double eps;
  bool has_weight;

  RmsNorm(double eps_, bool has_weight_) : eps(eps_), has_weight(has_weight_) {}

  Reads reads(Wanted wanted) const override {
    return Reads::in(0) | Reads::out(1) | Reads::in(1).when(has_weight && wanted[0]);
  }

  Types infer(Inputs in) const override {
    const Shape& x = in[0].shape();
    require_float(name, "x", in[0]);
    if (x.rank() == 0 || x.back() == 0) fail("rms_norm: x must have a last axis of at least one element; got {}", x);
    if (!(eps >= 0)) fail("rms_norm: eps must not be negative; got {}", eps);
    if (has_weight) {
      require_same_dtype(name, "x", in[0], "weight", in[1]);
      if (in[1].shape() != Shape{x.back()})
        fail("rms_norm: weight must be [C] = [{}]; got {}", x.back(), in[1].shape());
    }
    return {Type{x, in[0].dtype()}, Type{x.drop_back(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    kernels::rms_norm(in[0].view(), has_weight ? in[1].view() : ConstView{}, eps, out[0], out[1]);
  }

  // x̂ = x r, y = x̂ w; ∂r/∂x_i = −r³ x_i / C = −r² x̂_i / C. With g = dy w:
  //   dx = r (g − x̂ mean(g x̂)) − dr r² x̂ / C,   dw = Σ_rows dy x̂
  Tensors vjp(const Call& call) const override {
    const bool wants_weight = has_weight && call.wants(1);
    const Tensor& dy = call.dout(0);
    Shape column = call.in_shape(0);
    column.set(column.rank() - 1, 1);
    const Tensor rstd = reshape(call.out(1), column), normalised = call.in(0) * rstd;
    Tensor dx, dweight;
    if (call.wants(0)) {
      const Tensor g = has_weight ? dy * call.in(1) : dy;
      dx = rstd * (g - normalised * mean(g * normalised, -1, keep_axes));
      if (call.has_dout(1)) {
        const double channels = static_cast<double>(call.in_shape(0).back());
        dx = dx - reshape(call.dout(1), column) * rstd * rstd * normalised / channels;
      }
    }
    if (wants_weight) dweight = sum_to(dy * normalised, call.in_shape(1));
    return has_weight ? Tensors{dx, dweight} : Tensors{dx};
  }

  Tensors vjp_kernel(const Call& call) const override {
    if (call.has_dout(1)) return vjp(call);
    std::optional<GradientSum> dx;
    std::optional<Buffer> dweight;
    if (call.wants(0)) dx.emplace(call, 0);
    if (has_weight && call.wants(1)) dweight.emplace(call.in_shape(1), call.in_dtype(1));
    kernels::rms_norm_backward(call.in(0).view(), has_weight && dx ? call.in(1).view() : ConstView{},
                               call.out(1).view(), call.dout(0).view(), dx ? dx->buffer.view() : View{},
                               dweight ? dweight->view() : View{}, dx && dx->adds);
    Tensors gradients;
    gradients.push_back(dx ? Tensor(std::move(dx->buffer)) : Tensor());
    if (has_weight) gradients.push_back(dweight ? Tensor(std::move(*dweight)) : Tensor());
    return gradients;
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

RmsNormOutputs rms_norm_outputs(const Tensor& x, const Tensor& weight, double eps) {
  const ops::RmsNorm op(eps, weight.defined());
  Tensors outputs = weight.defined() ? ops::apply_all(op, x, weight) : ops::apply_all(op, x);
  return {std::move(outputs[0]), std::move(outputs[1])};
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) { return rms_norm_outputs(x, weight, eps).y; }

}  // namespace capstan
