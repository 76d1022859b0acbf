#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gradient_sum.h>
#include <capstan/ops/kernels/layer_norm.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/layer_norm_parts.h>
#include <capstan/ops/require.h>

#include <optional>

namespace capstan::ops {
namespace {

ConstView optional_view(Inputs in, int input) { return input != 0 ? in[input].view() : ConstView{}; }

// The rules of both are layer_norm_parts.cpp's.

struct LayerNorm final : Op {
  static constexpr std::string_view name = "layer_norm";
  NormParameters norm;

  explicit LayerNorm(const NormParameters& parameters) : norm(parameters) {}

  Reads reads(Wanted wanted) const override { return norm.reads(wanted, wanted[0], Reads::in(0)); }
  Types infer(Inputs in) const override { return norm.infer(name, in); }
  void eval(Inputs in, Outputs out) const override {
    kernels::layer_norm(in[0].view(), optional_view(in, norm.weight), optional_view(in, norm.bias), norm.eps, out[0],
                        out[1], out[2]);
  }

  Tensors vjp(const Call& call) const override {
    const bool reads_x = call.wants(0) || norm.wants_weight(call);
    Tensors gradients;
    gradients.resize(call.inputs());
    gradients[0] = norm.vjp(call, reads_x ? call.in(0) : Tensor(), call.wants(0), gradients);
    return gradients;
  }

  Tensors vjp_kernel(const Call& call) const override {
    if (call.has_dout(1) || call.has_dout(2) || !(call.wants(0) || norm.wants_weight(call))) return vjp(call);
    Tensors gradients;
    gradients.resize(call.inputs());
    // Beside the norm x may go on as a residual, whose cotangent has arrived already.
    std::optional<GradientSum> dx;
    if (call.wants(0)) dx.emplace(call, 0);
    norm.vjp_kernel(call, call.in(0), dx ? dx->buffer.view() : View{}, dx && dx->adds, gradients);
    if (dx) gradients[0] = std::move(dx->buffer);
    return gradients;
  }
};

/// Outputs: y, mean, rstd and the sum.
struct AddLayerNorm final : Op {
  static constexpr std::string_view name = "add_layer_norm";
  NormParameters norm;

  explicit AddLayerNorm(const NormParameters& parameters) : norm(parameters) {}

  static bool wants_sum(const Call& call) { return call.wants(0) || call.wants(1); }

  Reads reads(Wanted wanted) const override { return norm.reads(wanted, wanted[0] || wanted[1], Reads::out(3)); }

  Types infer(Inputs in) const override {
    Types types = norm.infer(name, in);
    require_same_dtype(name, "x", in[0], "r", in[1]);
    if (in[0].shape() != in[1].shape())
      fail("add_layer_norm: x and r must have one shape; got x {} and r {}", in[0].shape(), in[1].shape());
    types.push_back(types[0]);
    return types;
  }
  void eval(Inputs in, Outputs out) const override {
    kernels::add_layer_norm(in[0].view(), in[1].view(), optional_view(in, norm.weight), optional_view(in, norm.bias),
                            norm.eps, out[3], out[0], out[1], out[2]);
  }

  // s = x + r, y = layer_norm(s)   ⇒   dx = dr = ds + what comes through the norm
  Tensors vjp(const Call& call) const override {
    const bool reads_sum = wants_sum(call) || norm.wants_weight(call);
    Tensors gradients;
    gradients.resize(call.inputs());
    Tensor ds = norm.vjp(call, reads_sum ? call.out(3) : Tensor(), wants_sum(call), gradients);
    if (wants_sum(call) && call.has_dout(3)) ds = call.dout(3) + ds;
    for (int i = 0; i < 2; ++i)
      if (call.wants(i)) gradients[i] = ds;
    return gradients;
  }

  // One pass: the norm's gradient is added to the sum's cotangent, where that is nobody else's in its memory.
  Tensors vjp_kernel(const Call& call) const override {
    if (call.has_dout(1) || call.has_dout(2) || !(wants_sum(call) || norm.wants_weight(call))) return vjp(call);
    Tensors gradients;
    gradients.resize(call.inputs());
    if (!wants_sum(call)) {
      norm.vjp_kernel(call, call.out(3), View{}, false, gradients);
      return gradients;
    }
    Tensor up = call.take_dout(3);
    if (!up.defined() && call.has_dout(3)) up = call.dout(3);
    const bool adds = up.defined();
    Buffer sum = adds ? std::move(up).to_buffer() : call.new_gradient(0);
    norm.vjp_kernel(call, call.out(3), sum.view(), adds, gradients);
    const Tensor ds = std::move(sum);
    for (int i = 0; i < 2; ++i)
      if (call.wants(i)) gradients[i] = ds;
    return gradients;
  }
};

/// Runs a norm's op after its inputs `x...` with the parameters that there are.
template <class O, class... T>
Tensors apply_norm(const Tensor& weight, const Tensor& bias, double eps, const T&... x) {
  const O op(NormParameters(eps, sizeof...(x), weight.defined(), bias.defined()));
  if (weight.defined() && bias.defined()) return apply_all(op, x..., weight, bias);
  if (weight.defined()) return apply_all(op, x..., weight);
  if (bias.defined()) return apply_all(op, x..., bias);
  return apply_all(op, x...);
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

LayerNormOutputs layer_norm_outputs(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Tensors outputs = ops::apply_norm<ops::LayerNorm>(weight, bias, eps, x);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return layer_norm_outputs(x, weight, bias, eps).y;
}

AddLayerNormOutputs add_layer_norm(const Tensor& x, const Tensor& r, const Tensor& weight, const Tensor& bias,
                                   double eps) {
  Tensors outputs = ops::apply_norm<ops::AddLayerNorm>(weight, bias, eps, x, r);
  return {std::move(outputs[3]), std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

}  // namespace capstan
