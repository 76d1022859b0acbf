// The ops of elementwise.h on one operand.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/elementwise_parts.h>
#include <capstan/ops/kernels/tanh.h>
#include <capstan/ops/select.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace capstan::ops {
namespace {

struct Neg final : Op {
  static constexpr std::string_view name = "neg";
  Types infer(Inputs in) const override {
    const DType dtype = in[0].dtype();
    if (dtype == DType::boolean) fail("neg: x must be f32, f64 or i32; got {}; cast it first", dtype);
    return {Type{in[0].shape(), dtype}};
  }
  void eval(Inputs in, Outputs out) const override {
    if (few_floats(in[0], in[0], out[0], [](auto x, auto) { return -x; })) return;
    kernels::unary(kernels::Unary::neg, in[0].view(), out[0]);
  }
  Tensors vjp(const Call& c) const override { return {neg(c.dout(0))}; }
};

struct Scale final : Op {
  static constexpr std::string_view name = "scale";
  double factor, shift;
  Scale(double factor_, double shift_) : factor(factor_), shift(shift_) {}
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::affine(in[0].view(), factor, shift, out[0]); }
  // y = x · factor + shift   ⇒   dx = factor · dy
  Tensors vjp(const Call& c) const override {
    if (factor == 1) return {c.dout(0)};
    return {scale(c.dout(0), factor)};
  }
};

struct Abs final : Op {
  static constexpr std::string_view name = "abs";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::abs, in[0].view(), out[0]); }
  // dx = ±dy with the sign of x, 0 at the kink
  Tensors vjp(const Call& c) const override {
    const Tensor &x = c.in(0), &dy = c.dout(0);
    return {where(x > 0.0, dy, where(x < 0.0, neg(dy), 0.0))};
  }
};

/// dy ⊙ slope, where the slope may have overflowed: of a branch that is not taken, dy = 0, nothing may come back.
Tensor times_finite(const Tensor& dy, const Tensor& slope) {
  const Tensor infinite = equal(abs(slope), std::numeric_limits<double>::infinity());
  return dy * where(logical_and(infinite, equal(dy, 0.0)), 0.0, slope);
}
Tensors times_finite_kernel(const Tensor& dy, const Tensor& slope) {
  Buffer dx(slope.shape(), slope.dtype());
  kernels::binary(kernels::Binary::mul_slope, dy.view(), slope.view(), dx.view());
  return {std::move(dx)};
}

struct Exp final : Op {
  static constexpr std::string_view name = "exp";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::exp, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {times_finite(c.dout(0), c.out(0))}; }
  Tensors vjp_kernel(const Call& c) const override { return times_finite_kernel(c.dout(0), c.out(0)); }
};

struct Log final : Op {
  static constexpr std::string_view name = "log";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::log, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {c.dout(0) / c.in(0)}; }
};

struct Tanh final : Op {
  static constexpr std::string_view name = "tanh";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::tanh, in[0].view(), out[0]); }
  // dx = dy ⊙ (1 − y²)
  Tensors vjp(const Call& c) const override {
    const Tensor& y = c.out(0);
    return {c.dout(0) * (1.0 - y * y)};
  }
  Tensors vjp_kernel(const Call& c) const override {
    const Tensor& y = c.out(0);
    Buffer dx(y.shape(), y.dtype());
    kernels::tanh_backward(y.view(), c.dout(0).view(), dx.view());
    return {std::move(dx)};
  }
};

struct Sqrt final : Op {
  static constexpr std::string_view name = "sqrt";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::sqrt, in[0].view(), out[0]); }
  // dx = dy / 2y
  Tensors vjp(const Call& c) const override { return {scale(c.dout(0), 0.5) / c.out(0)}; }
};

struct Rsqrt final : Op {
  static constexpr std::string_view name = "rsqrt";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::rsqrt, in[0].view(), out[0]); }
  // y = x^(−1/2)   ⇒   dx = −dy x^(−3/2) / 2 = −dy y³ / 2
  Tensors vjp(const Call& c) const override {
    const Tensor& y = c.out(0);
    return {scale(c.dout(0) * y, -0.5) * (y * y)};
  }
};

/// x^exponent, where a rule needs it: x itself for 1.
Tensor power(const Tensor& x, double exponent) { return exponent == 1 ? x : pow(x, exponent); }

struct Pow final : Op {
  static constexpr std::string_view name = "pow";
  double exponent;
  explicit Pow(double exponent_) : exponent(exponent_) {}
  Reads reads(Wanted) const override { return Reads::in(0).when(exponent != 0 && exponent != 1); }
  Types infer(Inputs in) const override {
    if (!std::isfinite(exponent)) fail("pow: exponent must be finite; got {}", exponent);
    return infer_float(name, in);
  }
  void eval(Inputs in, Outputs out) const override {
    if (exponent == 2) return kernels::unary(kernels::Unary::square, in[0].view(), out[0]);
    if (exponent == -1) return kernels::unary(kernels::Unary::reciprocal, in[0].view(), out[0]);
    const Tensor number = full(Shape{}, exponent, in[0].dtype());
    kernels::binary(kernels::Binary::pow, in[0].view(), number.view(), out[0]);
  }
  // dx = dy · exponent · x^(exponent − 1). A whole exponent counts down to 1 and then 0, where derivatives end: 0 · 0^(−1)
  // would be NaN.
  Tensors vjp(const Call& c) const override {
    if (exponent == 0) return {Tensor()};
    if (exponent == 1) return {c.dout(0)};
    return {times_finite(c.dout(0), slope(c.in(0)))};
  }
  Tensors vjp_kernel(const Call& c) const override {
    if (exponent == 0 || exponent == 1) return vjp(c);
    return times_finite_kernel(c.dout(0), slope(c.in(0)));
  }

 private:
  Tensor slope(const Tensor& x) const { return scale(power(x, exponent - 1), exponent); }
};

struct Sigmoid final : Op {
  static constexpr std::string_view name = "sigmoid";
  // Of x and not of y: 1 − y has no digits left where y is near 1.
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::sigmoid, in[0].view(), out[0]); }
  // σ' = σ(x) (1 − σ(x)) = σ(x) σ(−x)
  Tensors vjp(const Call& c) const override {
    const Tensor& x = c.in(0);
    return {c.dout(0) * (sigmoid(x) * sigmoid(-x))};
  }
  Tensors vjp_kernel(const Call& c) const override { return times_slope(c, kernels::Unary::sigmoid_slope); }
};

struct Sin final : Op {
  static constexpr std::string_view name = "sin";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::sin, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {c.dout(0) * cos(c.in(0))}; }
};

struct Cos final : Op {
  static constexpr std::string_view name = "cos";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::cos, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {-(c.dout(0) * sin(c.in(0)))}; }
};

/// d erf / dx = 2/√π exp(−x²)
Tensor erf_slope(const Tensor& x, double sign) { return scale(exp(-(x * x)), sign * 2 * std::numbers::inv_sqrtpi); }

struct Erf final : Op {
  static constexpr std::string_view name = "erf";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::erf, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {c.dout(0) * erf_slope(c.in(0), 1)}; }
};

struct Erfc final : Op {
  static constexpr std::string_view name = "erfc";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::erfc, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {c.dout(0) * erf_slope(c.in(0), -1)}; }
};

struct Clamp final : Op {
  static constexpr std::string_view name = "clamp";
  double low, high;
  Clamp(double low_, double high_) : low(low_), high(high_) {}
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override {
    if (!(low <= high)) fail("clamp: low must not exceed high; got low {} and high {}", low, high);
    return infer_float(name, in);
  }
  void eval(Inputs in, Outputs out) const override { kernels::clamp(in[0].view(), low, high, out[0]); }
  // The slope is 1 within the bounds, at them too, and 0 outside.
  Tensors vjp(const Call& c) const override {
    const Tensor& x = c.in(0);
    return {where(logical_and(x >= low, x <= high), c.dout(0), 0.0)};
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

using ops::apply;

Tensor neg(const Tensor& x) { return apply(ops::Neg{}, x); }
Tensor scale(const Tensor& x, double factor, double shift) { return apply(ops::Scale{factor, shift}, x); }
Tensor abs(const Tensor& x) { return apply(ops::Abs{}, x); }
Tensor exp(const Tensor& x) { return apply(ops::Exp{}, x); }
Tensor log(const Tensor& x) { return apply(ops::Log{}, x); }
Tensor tanh(const Tensor& x) { return apply(ops::Tanh{}, x); }
Tensor sqrt(const Tensor& x) { return apply(ops::Sqrt{}, x); }
Tensor rsqrt(const Tensor& x) { return apply(ops::Rsqrt{}, x); }
Tensor pow(const Tensor& x, double exponent) {
  // The rule counts down from the exponent that the values have.
  if (x.defined() && x.dtype() == DType::f32) exponent = static_cast<double>(static_cast<float>(exponent));
  return apply(ops::Pow{exponent}, x);
}
Tensor sigmoid(const Tensor& x) { return apply(ops::Sigmoid{}, x); }
Tensor sin(const Tensor& x) { return apply(ops::Sin{}, x); }
Tensor cos(const Tensor& x) { return apply(ops::Cos{}, x); }
Tensor erf(const Tensor& x) { return apply(ops::Erf{}, x); }
Tensor erfc(const Tensor& x) { return apply(ops::Erfc{}, x); }
Tensor clamp(const Tensor& x, double low, double high) { return apply(ops::Clamp{low, high}, x); }

}  // namespace capstan
