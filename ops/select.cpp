#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

namespace capstan::ops {
namespace {

struct Where final : Op {
  static constexpr std::string_view name = "where";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override {
    require_dtype(name, "condition", in[0], DType::boolean);
    require_same_dtype(name, "a", in[1], "b", in[2]);
    const Shape &condition = in[0].shape(), &a = in[1].shape(), &b = in[2].shape();
    if (condition == a && a == b) return {Type{a, in[1].dtype()}};
    return {Type{broadcast("where", condition, broadcast("where", a, b)), in[1].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::where(in[0].view(), in[1].view(), in[2].view(), out[0]); }
  // y = condition ? a : b   ⇒   da = condition ? dy : 0, db = condition ? 0 : dy
  Tensors vjp(const Call& c) const override {
    const Tensor &condition = c.in(0), &dy = c.dout(0);
    return {Tensor(), c.wants(1) ? sum_to(where(condition, dy, 0.0), c.in_shape(1)) : Tensor(),
            c.wants(2) ? sum_to(where(condition, 0.0, dy), c.in_shape(2)) : Tensor()};
  }
};

struct Cast final : Op {
  static constexpr std::string_view name = "cast";
  DType dtype;
  explicit Cast(DType dtype_) : dtype(dtype_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), dtype}}; }
  void eval(Inputs in, Outputs out) const override { kernels::cast(in[0].view(), out[0]); }
  // Recorded between float dtypes only: the identity, up to rounding.
  Tensors vjp(const Call& c) const override { return {cast(c.dout(0), c.in_dtype(0))}; }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return ops::apply(ops::Where{}, condition, a, b);
}
Tensor where(const Tensor& condition, const Tensor& a, double b) {
  ops::require_defined("where", "a", a);
  return where(condition, a, full(Shape{}, b, a.dtype()));
}
Tensor where(const Tensor& condition, double a, const Tensor& b) {
  ops::require_defined("where", "b", b);
  return where(condition, full(Shape{}, a, b.dtype()), b);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  ops::require_defined("masked_fill", "x", x);
  ops::require_defined("masked_fill", "mask", mask);
  ops::require_dtype("masked_fill", "mask", mask, DType::boolean);
  if (!ops::stretches(mask.shape(), x.shape()))
    fail("masked_fill: mask must broadcast to x's shape; got mask {} and x {}", mask.shape(), x.shape());
  return where(mask, value, x);
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.defined() && x.dtype() == dtype) return x;
  return ops::apply(ops::Cast{dtype}, x);
}

}  // namespace capstan
