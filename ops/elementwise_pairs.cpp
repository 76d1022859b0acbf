// The ops of elementwise.h on two operands.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/elementwise_parts.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/select.h>

namespace capstan::ops {
namespace {

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

/// dy ⊙ x, summed to `shape`.
Tensor product(const Tensor& dy, const Tensor& x, const Shape& shape) {
  Buffer dx(dy.shape(), dy.dtype());
  if (!few_floats(dy, x, dx.view(), [](auto a, auto b) { return a * b; }))
    kernels::binary(kernels::Binary::mul, dy.view(), x.view(), dx.view());
  if (dx.shape() == shape) return dx;
  return sum_to(std::move(dx), shape);
}

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
  Tensors vjp_kernel(const Call& c) const override {
    return {c.wants(0) ? product(c.dout(0), c.in(1), c.in_shape(0)) : Tensor(),
            c.wants(1) ? product(c.dout(0), c.in(0), c.in_shape(1)) : Tensor()};
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

/// dy where a wins, half of it where they are equal, 0 where they are not ordered: each side's share of an extremum.
Tensors shares(const Call& c, const Tensor& a_wins, const Tensor& b_wins) {
  const Tensor &a = c.in(0), &b = c.in(1), &dy = c.dout(0);
  const Tensor shared = where(equal(a, b), scale(dy, 0.5), 0.0);
  return {c.wants(0) ? sum_to(where(a_wins, dy, shared), a.shape()) : Tensor(),
          c.wants(1) ? sum_to(where(b_wins, dy, shared), b.shape()) : Tensor()};
}

struct Minimum final : Op {
  static constexpr std::string_view name = "minimum";
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::floats); }
  void eval(Inputs in, Outputs out) const override {
    kernels::binary(kernels::Binary::minimum, in[0].view(), in[1].view(), out[0]);
  }
  Tensors vjp(const Call& c) const override { return shares(c, c.in(0) < c.in(1), c.in(0) > c.in(1)); }
};

struct Maximum final : Op {
  static constexpr std::string_view name = "maximum";
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return infer_pair(name, in, Numbers::floats); }
  void eval(Inputs in, Outputs out) const override {
    kernels::binary(kernels::Binary::maximum, in[0].view(), in[1].view(), out[0]);
  }
  Tensors vjp(const Call& c) const override { return shares(c, c.in(0) > c.in(1), c.in(0) < c.in(1)); }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

using ops::apply;

Tensor add(const Tensor& a, const Tensor& b) { return apply(ops::Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply(ops::Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply(ops::Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return apply(ops::Div{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply(ops::Minimum{}, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return apply(ops::Maximum{}, a, b); }

Tensor operator/(const Tensor& x, double number) {
  ops::require_float("div", "a", x);
  return div(x, full(Shape{}, number, x.dtype()));
}
Tensor operator/(double number, const Tensor& x) {
  ops::require_float("div", "b", x);
  return div(full(Shape{}, number, x.dtype()), x);
}

}  // namespace capstan
