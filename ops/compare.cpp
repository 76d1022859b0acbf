#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/require.h>

#include <cmath>
#include <limits>

namespace capstan::ops {
namespace {

Types infer_booleans(std::string_view name, Inputs in) {
  const Shape &a = in[0].shape(), &b = in[1].shape();
  if (a == b) return {Type{a, DType::boolean}};
  return {Type{broadcast(name.data(), a, b), DType::boolean}};
}

/// What the six comparisons share.
template <kernels::Compare relation>
struct Comparison : Op {
  Types check(std::string_view name, Inputs in) const {
    require_same_dtype(name, "a", in[0], "b", in[1]);
    return infer_booleans(name, in);
  }
  void eval(Inputs in, Outputs out) const override { kernels::compare(relation, in[0].view(), in[1].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return no_gradient(c, "a truth value changes in jumps only"); }
};

struct Equal final : Comparison<kernels::Compare::equal> {
  static constexpr std::string_view name = "equal";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct NotEqual final : Comparison<kernels::Compare::not_equal> {
  static constexpr std::string_view name = "not_equal";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct Less final : Comparison<kernels::Compare::less> {
  static constexpr std::string_view name = "less";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct LessEqual final : Comparison<kernels::Compare::less_equal> {
  static constexpr std::string_view name = "less_equal";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct Greater final : Comparison<kernels::Compare::greater> {
  static constexpr std::string_view name = "greater";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct GreaterEqual final : Comparison<kernels::Compare::greater_equal> {
  static constexpr std::string_view name = "greater_equal";
  Types infer(Inputs in) const override { return check(name, in); }
};

/// What the two connectives share.
template <kernels::Logical connective>
struct Connective : Op {
  Types check(std::string_view name, Inputs in) const {
    require_dtype(name, "a", in[0], DType::boolean);
    require_dtype(name, "b", in[1], DType::boolean);
    return infer_booleans(name, in);
  }
  void eval(Inputs in, Outputs out) const override { kernels::logical(connective, in[0].view(), in[1].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return no_gradient(c, "a truth value changes in jumps only"); }
};

struct LogicalAnd final : Connective<kernels::Logical::logical_and> {
  static constexpr std::string_view name = "logical_and";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct LogicalOr final : Connective<kernels::Logical::logical_or> {
  static constexpr std::string_view name = "logical_or";
  Types infer(Inputs in) const override { return check(name, in); }
};
struct LogicalNot final : Op {
  static constexpr std::string_view name = "logical_not";
  Types infer(Inputs in) const override {
    require_dtype(name, "x", in[0], DType::boolean);
    return {Type{in[0].shape(), DType::boolean}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::logical_not(in[0].view(), out[0]); }
  Tensors vjp(const Call& c) const override { return no_gradient(c, "a truth value changes in jumps only"); }
};

/// The number as a scalar of a's dtype.
Tensor number_for(std::string_view name, const Tensor& a, double number) {
  require_defined(name, "a", a);
  using Limits = std::numeric_limits<std::int32_t>;
  const bool fits =
      is_float(a.dtype()) ||
      (std::trunc(number) == number &&
       (a.dtype() == DType::i32 ? number >= Limits::min() && number <= Limits::max() : number == 0 || number == 1));
  if (!fits) fail("{}: b must be a value of a's dtype; got {} for {}; cast a first", name, number, a.dtype());
  return full(Shape{}, number, a.dtype());
}

template <class O>
Tensor with_number(const O& op, const Tensor& a, double number) {
  return apply(op, a, number_for(O::name, a, number));
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

using ops::apply;
using ops::with_number;

Tensor equal(const Tensor& a, const Tensor& b) { return apply(ops::Equal{}, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return apply(ops::NotEqual{}, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return apply(ops::Less{}, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return apply(ops::LessEqual{}, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return apply(ops::Greater{}, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return apply(ops::GreaterEqual{}, a, b); }

Tensor equal(const Tensor& a, double b) { return with_number(ops::Equal{}, a, b); }
Tensor not_equal(const Tensor& a, double b) { return with_number(ops::NotEqual{}, a, b); }
Tensor less(const Tensor& a, double b) { return with_number(ops::Less{}, a, b); }
Tensor less_equal(const Tensor& a, double b) { return with_number(ops::LessEqual{}, a, b); }
Tensor greater(const Tensor& a, double b) { return with_number(ops::Greater{}, a, b); }
Tensor greater_equal(const Tensor& a, double b) { return with_number(ops::GreaterEqual{}, a, b); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return apply(ops::LogicalAnd{}, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return apply(ops::LogicalOr{}, a, b); }
Tensor logical_not(const Tensor& x) { return apply(ops::LogicalNot{}, x); }

}  // namespace capstan
