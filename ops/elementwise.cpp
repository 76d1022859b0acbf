#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/kernels/tanh.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

#include <numbers>

namespace capstan::ops {
namespace {

// ---- two operands ---------------------------------------------------------------------------------------------------

enum class Numbers : bool { floats, with_i32 };

Types infer_pair(std::string_view name, Inputs in, Numbers numbers) {
  const Tensor &a = in[0], &b = in[1];
  const DType dtype = a.dtype();
  require_same_dtype(name, "a", a, "b", b);
  if (!is_float(dtype) && !(numbers == Numbers::with_i32 && dtype == DType::i32))
    fail("{}: a and b must be {}; got {}; cast them first", name,
         numbers == Numbers::floats ? "f32 or f64" : "f32, f64 or i32", dtype);
  if (a.shape() == b.shape()) return {Type{a.shape(), dtype}};
  return {Type{broadcast(name.data(), a.shape(), b.shape()), dtype}};
}

/// A few dense elements are done before a strided loop is set up: on scalars, that costs more than all the rest.
constexpr Index few = 16;

template <class F>
bool few_floats(const Tensor& a, const Tensor& b, const View& y, F f) {
  if (y.elements() > few || !is_float(y.dtype) || !(a.shape() == b.shape()) || !a.contiguous() || !b.contiguous())
    return false;
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *at_a = a.view().data<T>(), *at_b = b.view().data<T>();
    T* out = y.data<T>();
    for (Index i = 0, count = y.elements(); i < count; ++i) out[i] = f(at_a[i], at_b[i]);
  });
  return true;
}

struct Add final : Op {
  static constexpr std::string_view name = "add";
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::with_i32); }
  void eval(Inputs in, Outputs out) const override {
    if (few_floats(in[0], in[1], out[0], [](auto a, auto b) { return a + b; })) return;
    kernels::binary(kernels::Binary::add, in[0].view(), in[1].view(), out[0]);
  }
  // y = a + b   ⇒   da = dy, db = dy
  Tensors vjp(const Call& c) const override {
    return {c.wants(0) ? sum_to(c.dout(0), c.in_shape(0)) : Tensor(),
            c.wants(1) ? sum_to(c.dout(0), c.in_shape(1)) : Tensor()};
  }
};

struct Sub final : Op {
  static constexpr std::string_view name = "sub";
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::with_i32); }
  void eval(Inputs in, Outputs out) const override {
    if (few_floats(in[0], in[1], out[0], [](auto a, auto b) { return a - b; })) return;
    kernels::binary(kernels::Binary::sub, in[0].view(), in[1].view(), out[0]);
  }
  // y = a − b   ⇒   da = dy, db = −dy
  Tensors vjp(const Call& c) const override {
    return {c.wants(0) ? sum_to(c.dout(0), c.in_shape(0)) : Tensor(),
            c.wants(1) ? neg(sum_to(c.dout(0), c.in_shape(1))) : Tensor()};
  }
};

struct Mul final : Op {
  static constexpr std::string_view name = "mul";
  Reads reads(Wanted w) const override { return Reads::in(1).when(w[0]) | Reads::in(0).when(w[1]); }
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::with_i32); }
  void eval(Inputs in, Outputs out) const override {
    if (few_floats(in[0], in[1], out[0], [](auto a, auto b) { return a * b; })) return;
    kernels::binary(kernels::Binary::mul, in[0].view(), in[1].view(), out[0]);
  }
  // y = a ⊙ b   ⇒   da = dy ⊙ b, db = dy ⊙ a
  Tensors vjp(const Call& c) const override {
    return {c.wants(0) ? sum_to(mul(c.dout(0), c.in(1)), c.in_shape(0)) : Tensor(),
            c.wants(1) ? sum_to(mul(c.dout(0), c.in(0)), c.in_shape(1)) : Tensor()};
  }
};

struct Div final : Op {
  static constexpr std::string_view name = "div";
  Reads reads(Wanted w) const override { return Reads::in(1) | Reads::out(0).when(w[1]); }
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::floats); }
  void eval(Inputs in, Outputs out) const override {
    if (few_floats(in[0], in[1], out[0], [](auto a, auto b) { return a / b; })) return;
    kernels::binary(kernels::Binary::div, in[0].view(), in[1].view(), out[0]);
  }
  // y = a / b   ⇒   da = dy / b, db = −dy ⊙ a / b² = −(dy / b) ⊙ y
  Tensors vjp(const Call& c) const override {
    const Tensor quotient = c.dout(0) / c.in(1);
    return {c.wants(0) ? sum_to(quotient, c.in_shape(0)) : Tensor(),
            c.wants(1) ? neg(sum_to(quotient * c.out(0), c.in_shape(1))) : Tensor()};
  }
};

// ---- one operand ----------------------------------------------------------------------------------------------------

Types infer_float(std::string_view name, Inputs in) {
  require_float(name, "x", in[0]);
  return {Type{in[0].shape(), in[0].dtype()}};
}

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

struct Exp final : Op {
  static constexpr std::string_view name = "exp";
  Reads reads(Wanted) const override { return Reads::out(0); }
  Types infer(Inputs in) const override { return infer_float(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::unary(kernels::Unary::exp, in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return {c.dout(0) * c.out(0)}; }
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
    return {Tensor(std::move(dx))};
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

Tensor add(const Tensor& a, const Tensor& b) { return apply(ops::Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply(ops::Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply(ops::Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return apply(ops::Div{}, a, b); }

Tensor neg(const Tensor& x) { return apply(ops::Neg{}, x); }
Tensor scale(const Tensor& x, double factor, double shift) { return apply(ops::Scale{factor, shift}, x); }
Tensor exp(const Tensor& x) { return apply(ops::Exp{}, x); }
Tensor log(const Tensor& x) { return apply(ops::Log{}, x); }
Tensor tanh(const Tensor& x) { return apply(ops::Tanh{}, x); }
Tensor sqrt(const Tensor& x) { return apply(ops::Sqrt{}, x); }
Tensor sin(const Tensor& x) { return apply(ops::Sin{}, x); }
Tensor cos(const Tensor& x) { return apply(ops::Cos{}, x); }
Tensor erf(const Tensor& x) { return apply(ops::Erf{}, x); }
Tensor erfc(const Tensor& x) { return apply(ops::Erfc{}, x); }
Tensor clamp(const Tensor& x, double low, double high) { return apply(ops::Clamp{low, high}, x); }

Tensor operator/(const Tensor& x, double number) {
  ops::require_float("div", "a", x);
  return div(x, full(Shape{}, number, x.dtype()));
}
Tensor operator/(double number, const Tensor& x) {
  ops::require_float("div", "b", x);
  return div(full(Shape{}, number, x.dtype()), x);
}

}  // namespace capstan
