#include <capstan/autograd/op.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

#include <numbers>

namespace capstan::ops {
namespace {

Types same_float(std::string_view op, Inputs in) {
  require_float(op, "x", in[0]);
  return {Type{in[0].shape(), in[0].dtype()}};
}

/// dy ⊙ slope(x) by two passes of kernels.
Tensors times_slope(const Call& call, kernels::Unary slope) {
  Buffer dx(call.in_shape(0), call.in_dtype(0));
  kernels::unary(slope, call.in(0).view(), dx.view());
  kernels::binary(kernels::Binary::mul, call.dout(0).view(), dx.view(), dx.view());
  return {Tensor(std::move(dx))};
}

struct Relu final : Op {
  static constexpr std::string_view name = "relu";

  // y > 0 exactly where x > 0, and y is what the next op keeps anyway.
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return same_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::relu, in[0].view(), out[0]); }

  // dx = dy where y > 0, else 0
  Tensors vjp(const Call& call) const override { return {where(call.out(0) > 0.0, call.dout(0), 0.0)}; }
};

/// 1 / (1 + exp(−z)). The clamp keeps exp finite, and so derivatives of any order: ∞ · 0 would make them NaN. Beyond it the
/// value is below 10⁻³⁴ (f32) or 10⁻³⁰³ (f64) instead of 0.
Tensor sigmoid(const Tensor& z) {
  const double limit = z.dtype() == DType::f64 ? 700 : 80;
  return 1.0 / (exp(-clamp(z, -limit, limit)) + 1.0);
}

struct GeluTanh final : Op {
  static constexpr std::string_view name = "gelu_tanh";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return same_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::gelu_tanh, in[0].view(), out[0]); }

  // (1 + tanh u)/2 = σ(2u), so y = x σ(z) with z = 2u = x (a + b x²), and σ' = σ(z) σ(−z)
  //   ⇒   dx = dy σ(z) (1 + x σ(−z) z'), z' = a + 3b x²: nothing cancels for negative x
  Tensors vjp(const Call& call) const override {
    const double a = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, b = a * 0.044715;
    const Tensor& x = call.in(0);
    const Tensor square = x * x;
    const Tensor z = x * scale(square, b, a);
    const Tensor slope = sigmoid(z) * (x * sigmoid(-z) * scale(square, 3 * b, a) + 1.0);
    return {call.dout(0) * slope};
  }
  Tensors vjp_kernel(const Call& call) const override { return times_slope(call, kernels::Unary::gelu_tanh_slope); }
};

struct GeluErf final : Op {
  static constexpr std::string_view name = "gelu_erf";

  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return same_float(name, in); }
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

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor relu(const Tensor& x) { return ops::apply(ops::Relu{}, x); }
Tensor gelu_tanh(const Tensor& x) { return ops::apply(ops::GeluTanh{}, x); }
Tensor gelu_erf(const Tensor& x) { return ops::apply(ops::GeluErf{}, x); }

}  // namespace capstan
