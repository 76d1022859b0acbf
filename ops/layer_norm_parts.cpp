#include <capstan/autograd/format.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/layer_norm.h>
#include <capstan/ops/layer_norm_parts.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

#include <optional>

namespace capstan::ops {

namespace {

void check_channels(std::string_view op, Inputs in, int input, const char* argument) {
  require_same_dtype(op, "x", in[0], argument, in[input]);
  if (in[input].shape() != Shape{in[0].shape().back()})
    fail("{}: {} must be [C] = [{}]; got {}", op, argument, in[0].shape().back(), in[input].shape());
}

/// A statistic with a last axis of size 1, to broadcast against x.
Tensor column(const Tensor& x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}

}  // namespace

// The gradients of x and weight need x̂; the bias's needs nothing.
Reads NormParameters::reads(Wanted wanted, bool wants_x, Reads x) const {
  const bool normalised = wants_x || (weight != 0 && wanted[weight]);
  return (x | Reads::out(1) | Reads::out(2)).when(normalised) | Reads::in(weight).when(weight != 0 && wants_x);
}

Types NormParameters::infer(std::string_view op, Inputs in) const {
  const Shape& x = in[0].shape();
  require_float(op, "x", in[0]);
  if (x.rank() == 0 || x.back() == 0) fail("{}: x must have a last axis of at least one element; got {}", op, x);
  if (!(eps >= 0)) fail("{}: eps must not be negative; got {}", op, eps);
  if (weight != 0) check_channels(op, in, weight, "weight");
  if (bias != 0) check_channels(op, in, bias, "bias");
  const Type statistic{x.drop_back(), in[0].dtype()};
  return {Type{x, in[0].dtype()}, statistic, statistic};
}

// x̂ = (x − m) r, y = x̂ w + b; ∂m/∂x_i = 1/C, ∂r/∂x_i = −r² x̂_i / C. With g = dy w:
//   dx = r (g − mean(g) − x̂ mean(g x̂)) + dm/C − dr r² x̂ / C,   dw = Σ_rows dy x̂,   db = Σ_rows dy
Tensor NormParameters::vjp(const Call& call, const Tensor& x, bool wants_x, Tensors& gradients) const {
  const Tensor& dy = call.dout(0);
  if (bias != 0 && call.wants(bias)) gradients[bias] = sum_to(dy, call.in_shape(bias));
  if (!wants_x && !wants_weight(call)) return {};
  const Tensor rstd = column(call.out(2)), normalised = (x - column(call.out(1))) * rstd;
  if (wants_weight(call)) gradients[weight] = sum_to(dy * normalised, call.in_shape(weight));
  if (!wants_x) return {};
  const double channels = static_cast<double>(call.in_shape(0).back());
  const Tensor g = weight != 0 ? dy * call.in(weight) : dy;
  Tensor dx = rstd * (g - mean(g, -1, keep_axes) - normalised * mean(g * normalised, -1, keep_axes));
  if (call.has_dout(1)) dx = dx + column(call.dout(1)) / channels;
  if (call.has_dout(2)) dx = dx - column(call.dout(2)) * rstd * rstd * normalised / channels;
  return dx;
}

void NormParameters::vjp_kernel(const Call& call, const Tensor& x, View dx, bool adds, Tensors& gradients) const {
  std::optional<Buffer> dweight, dbias;
  const auto want = [&](int input, std::optional<Buffer>& gradient) {
    if (input == 0 || !call.wants(input)) return View{};
    return gradient.emplace(call.in_shape(input), call.in_dtype(input)).view();
  };
  const View dweight_view = want(weight, dweight), dbias_view = want(bias, dbias);
  const ConstView weights = weight != 0 && dx.layout != nullptr ? call.in(weight).view() : ConstView{};
  kernels::layer_norm_backward(x.view(), weights, call.out(1).view(), call.out(2).view(), call.dout(0).view(), dx,
                               dweight_view, dbias_view, adds);
  if (dweight) gradients[weight] = std::move(*dweight);
  if (dbias) gradients[bias] = std::move(*dbias);
}

}  // namespace capstan::ops
