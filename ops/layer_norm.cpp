#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gradient_sum.h>
#include <capstan/ops/kernels/layer_norm.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

#include <optional>

namespace capstan::ops {
namespace {

struct LayerNorm final : Op {
  static constexpr std::string_view name = "layer_norm";
  double eps;
  int weight = 0;  // its input's number; 0: none
  int bias = 0;

  LayerNorm(double eps_, bool has_weight, bool has_bias)
      : eps(eps_), weight(has_weight ? 1 : 0), bias(has_bias ? weight + 1 : 0) {}

  Reads reads(Wanted wanted) const override {
    // The gradients of x and weight need x̂; the bias's needs nothing.
    const bool normalised = wanted[0] || (weight != 0 && wanted[weight]);
    return (Reads::in(0) | Reads::out(1) | Reads::out(2)).when(normalised) |
           Reads::in(weight).when(weight != 0 && wanted[0]);
  }

  Types infer(Inputs in) const override {
    const Shape& x = in[0].shape();
    require_float(name, "x", in[0]);
    if (x.rank() == 0 || x.back() == 0) fail("layer_norm: x must have a last axis of at least one element; got {}", x);
    if (!(eps >= 0)) fail("layer_norm: eps must not be negative; got {}", eps);
    if (weight != 0) check_channels(in, weight, "weight");
    if (bias != 0) check_channels(in, bias, "bias");
    const Type statistic{x.drop_back(), in[0].dtype()};
    return {Type{x, in[0].dtype()}, statistic, statistic};
  }
  void eval(Inputs in, Outputs out) const override {
    const auto optional = [&](int input) { return input != 0 ? in[input].view() : ConstView{}; };
    kernels::layer_norm(in[0].view(), optional(weight), optional(bias), eps, out[0], out[1], out[2]);
  }

  // x̂ = (x − m) r, y = x̂ w + b; ∂m/∂x_i = 1/C, ∂r/∂x_i = −r² x̂_i / C. With g = dy w:
  //   dx = r (g − mean(g) − x̂ mean(g x̂)) + dm/C − dr r² x̂ / C,   dw = Σ_rows dy x̂,   db = Σ_rows dy
  Tensors vjp(const Call& call) const override {
    const double channels = static_cast<double>(call.in_shape(0).back());
    const Tensor& dy = call.dout(0);
    const bool wants_weight = weight != 0 && call.wants(weight);
    Tensors gradients;
    gradients.resize(call.inputs());
    Tensor normalised, rstd;
    if (call.wants(0) || wants_weight) {
      rstd = column(call.out(2));
      normalised = (call.in(0) - column(call.out(1))) * rstd;
    }
    if (call.wants(0)) {
      const Tensor g = weight != 0 ? dy * call.in(weight) : dy;
      Tensor dx = rstd * (g - mean(g, -1, keep_axes) - normalised * mean(g * normalised, -1, keep_axes));
      if (call.has_dout(1)) dx = dx + column(call.dout(1)) / channels;
      if (call.has_dout(2)) dx = dx - column(call.dout(2)) * rstd * rstd * normalised / channels;
      gradients[0] = dx;
    }
    if (wants_weight) gradients[weight] = sum_to(dy * normalised, call.in_shape(weight));
    if (bias != 0 && call.wants(bias)) gradients[bias] = sum_to(dy, call.in_shape(bias));
    return gradients;
  }

  Tensors vjp_kernel(const Call& call) const override {
    const bool wants_weight = weight != 0 && call.wants(weight);
    if (call.has_dout(1) || call.has_dout(2) || !(call.wants(0) || wants_weight)) return vjp(call);
    std::optional<Buffer> gradients[3];
    View views[3];  // of x, weight and bias; those that are not wanted stay absent
    const auto want = [&](int input, int argument) {
      if (!call.wants(input)) return;
      gradients[input].emplace(call.in_shape(input), call.in_dtype(input));
      views[argument] = gradients[input]->view();
    };
    // Beside the norm x often goes on as a residual, whose cotangent has arrived already.
    std::optional<GradientSum> dx;
    if (call.wants(0)) views[0] = dx.emplace(call, 0).buffer.view();
    if (weight != 0) want(weight, 1);
    if (bias != 0) want(bias, 2);
    const ConstView weights = weight != 0 && call.wants(0) ? call.in(weight).view() : ConstView{};
    kernels::layer_norm_backward(call.in(0).view(), weights, call.out(1).view(), call.out(2).view(),
                                 call.dout(0).view(), views[0], views[1], views[2], dx && dx->adds);
    Tensors results;
    results.push_back(dx ? Tensor(std::move(dx->buffer)) : Tensor());
    for (int i = 1; i < call.inputs(); ++i)
      results.push_back(gradients[i] ? Tensor(std::move(*gradients[i])) : Tensor());
    return results;
  }

 private:
  static void check_channels(Inputs in, int input, const char* argument) {
    require_same_dtype(name, "x", in[0], argument, in[input]);
    if (in[input].shape() != Shape{in[0].shape().back()})
      fail("layer_norm: {} must be [C] = [{}]; got {}", argument, in[0].shape().back(), in[input].shape());
  }
  /// A statistic with a last axis of size 1, to broadcast against x.
  static Tensor column(const Tensor& x) {
    Shape shape = x.shape();
    shape.push_back(1);
    return reshape(x, shape);
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

LayerNormOutputs layer_norm_outputs(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const ops::LayerNorm op(eps, weight.defined(), bias.defined());
  Tensors outputs = weight.defined()
                        ? bias.defined() ? ops::apply_all(op, x, weight, bias) : ops::apply_all(op, x, weight)
                    : bias.defined() ? ops::apply_all(op, x, bias)
                                     : ops::apply_all(op, x);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return layer_norm_outputs(x, weight, bias, eps).y;
}

}  // namespace capstan
