#include <capstan/ops/activation.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/elementwise_parts.h>
#include <capstan/ops/select.h>

#include <numbers>

namespace capstan::ops {
namespace {

struct Relu final : Op {
  static constexpr std::string_view name = "relu";

  // y > 0 exactly where x > 0, and y is what the next op keeps anyway.
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::relu, in[0].view(), out[0]); }

  // dx = dy where y > 0, else 0
  Tensors vjp(const Call& call) const override { return {where(call.out(0) > 0.0, call.dout(0), 0.0)}; }
};

struct GeluTanh final : Op {
  static constexpr std::string_view name = "gelu_tanh";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::gelu_tanh, in[0].view(), out[0]); }

  // (1 + tanh u)/2 = σ(2u), so y = x σ(z) with z = 2u = x (a + b x²), and σ' = σ(z) σ(−z)
  //   ⇒   dx = dy σ(z) (1 + x σ(−z) z'), z' = a + 3b x²: nothing cancels for negative x   (gelu_tanh_slope)
  Tensors vjp(const Call& call) const override { return {call.dout(0) * gelu_tanh_slope(call.in(0))}; }
  Tensors vjp_kernel(const Call& call) const override { return times_slope(call, kernels::Unary::gelu_tanh_slope); }
};

struct GeluErf final : Op {
  static constexpr std::string_view name = "gelu_erf";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::gelu_erf, in[0].view(), out[0]); }

  // y = x Φ(x), Φ' = φ   ⇒   dx = dy (Φ(x) + x φ(x)), Φ(x) = erfc(−x/√2)/2, φ(x) = exp(−x²/2)/√(2π)
  Tensors vjp(const Call& call) const override {
    const Tensor& x = call.in(0);
    const Tensor cumulative = scale(erfc(scale(x, -1 / std::numbers::sqrt2)), 0.5);
    const Tensor density = scale(exp(scale(x * x, -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return {call.dout(0) * (cumulative + x * density)};
  }
  Tensors vjp_kernel(const Call& call) const override { return times_slope(call, kernels::Unary::gelu_erf_slope); }
};

struct Silu final : Op {
  static constexpr std::string_view name = "silu";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::silu, in[0].view(), out[0]); }

  // y = x σ(x), σ' = σ(x) σ(−x)   ⇒   dx = dy σ(x) (1 + x σ(−x)): nothing cancels for large |x|.
  // Beyond ±10⁴ the slope is 0 or 1 and every further one 0, exactly: the clamp changes no derivative, and keeps ∞ · 0 away.
  Tensors vjp(const Call& call) const override {
    const Tensor x = clamp(call.in(0), -1e4, 1e4);
    return {call.dout(0) * (sigmoid(x) * (x * sigmoid(-x) + 1.0))};
  }
  Tensors vjp_kernel(const Call& call) const override { return times_slope(call, kernels::Unary::silu_slope); }
};

struct Softplus final : Op {
  static constexpr std::string_view name = "softplus";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::softplus, in[0].view(), out[0]); }

  // y = log(1 + eˣ)   ⇒   dx = dy eˣ / (1 + eˣ) = dy σ(x)
  Tensors vjp(const Call& call) const override { return {call.dout(0) * sigmoid(call.in(0))}; }
  Tensors vjp_kernel(const Call& call) const override { return times_slope(call, kernels::Unary::sigmoid); }
};

}  // namespace

Tensor gelu_tanh_slope(const Tensor& x) {
  const double a = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, b = a * 0.044715;
  const Tensor square = x * x;
  const Tensor z = x * scale(square, b, a);
  return sigmoid(z) * (x * sigmoid(-z) * scale(square, 3 * b, a) + 1.0);
}

}  // namespace capstan::ops

namespace capstan {

Tensor relu(const Tensor& x) { return ops::apply(ops::Relu{}, x); }
Tensor gelu_tanh(const Tensor& x) { return ops::apply(ops::GeluTanh{}, x); }
Tensor gelu_erf(const Tensor& x) { return ops::apply(ops::GeluErf{}, x); }
Tensor silu(const Tensor& x) { return ops::apply(ops::Silu{}, x); }
Tensor softplus(const Tensor& x) { return ops::apply(ops::Softplus{}, x); }

}  // namespace capstan
