#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/reduce.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

namespace capstan::ops {
namespace {

using kernels::all_axes;
using kernels::axis_bit;
using kernels::AxisMask;

bool holds(AxisMask mask, int axis) { return (mask >> axis & 1) != 0; }

/// `axes` are summed over; of these, `dropped` vanish from the result and the others stay with size 1.
struct Reduction : Op {
  AxisMask axes, dropped;
  Reduction(AxisMask axes_, AxisMask dropped_) : axes(axes_), dropped(dropped_) {}

  Shape result(const Shape& x) const {
    Shape y;
    for (int i = 0; i < x.rank(); ++i)
      if (!holds(dropped, i)) y.push_back(holds(axes, i) ? 1 : x[i]);
    return y;
  }
  /// The result's shape as it broadcasts against x.
  Shape aligned(const Shape& x) const {
    Shape y = x;
    for (int i = 0; i < x.rank(); ++i)
      if (holds(axes, i)) y.set(i, 1);
    return y;
  }
  /// A value of the result's shape, stretched to x's. (Leading axes come back by themselves.)
  Tensor stretch(const Tensor& y, const Shape& x) const {
    const bool leading = (dropped & (dropped + 1)) == 0;
    return broadcast_to(leading ? y : reshape(y, aligned(x)), x);
  }
  /// Elements of x for each element of the result; an Error where there must be one and is none.
  Index count(std::string_view name, const Shape& x) const {
    Index count = 1, kept = 1;
    for (int i = 0; i < x.rank(); ++i) (holds(axes, i) ? count : kept) *= x[i];
    if (count == 0 && kept > 0)
      fail("{}: there must be at least one element for each result; got shape {} over axes {}", name, x,
           to_string(named(x.rank())));
    return count;
  }
  Axes named(int rank) const {
    Axes list;
    for (int i = 0; i < rank; ++i)
      if (holds(axes, i)) list.push_back(i);
    return list;
  }
};

/// A few dense elements, all of them, as a scalar: done before a reduction is planned.
bool few_to_scalar(const Tensor& x, AxisMask axes, double scale, const View& y) {
  if (x.elements() > 16 || axes != all_axes(x.rank()) || !is_float(x.dtype()) || !x.contiguous()) return false;
  visit_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* at = x.view().data<T>();
    double total = 0;
    for (Index i = 0, count = x.elements(); i < count; ++i) total += static_cast<double>(at[i]);
    *y.data<T>() = static_cast<T>(scale * total);
  });
  return true;
}

struct Sum final : Reduction {
  static constexpr std::string_view name = "sum";
  using Reduction::Reduction;
  Types infer(Inputs in) const override {
    if (in[0].dtype() == DType::boolean) fail("sum: x must be f32, f64 or i32; got bool; cast it first");
    return {Type{result(in[0].shape()), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    if (!few_to_scalar(in[0], axes, 1, out[0])) kernels::sum(in[0].view(), axes, out[0]);
  }
  // y = Σ x   ⇒   dx = dy for each element of the sum
  Tensors vjp(const Call& c) const override { return {stretch(c.dout(0), c.in_shape(0))}; }
};

struct Mean final : Reduction {
  static constexpr std::string_view name = "mean";
  using Reduction::Reduction;
  Types infer(Inputs in) const override {
    require_float(name, "x", in[0]);
    count(name, in[0].shape());
    return {Type{result(in[0].shape()), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    if (out[0].elements() == 0) return;
    const double share = 1.0 / static_cast<double>(count(name, in[0].shape()));
    if (!few_to_scalar(in[0], axes, share, out[0])) kernels::scaled_sum(in[0].view(), axes, share, out[0]);
  }
  // y = Σ x / n   ⇒   dx = dy / n
  Tensors vjp(const Call& c) const override {
    const Shape x = c.in_shape(0);
    const Index n = count(name, x);
    return {stretch(n > 1 ? scale(c.dout(0), 1.0 / static_cast<double>(n)) : c.dout(0), x)};
  }
};

struct Max final : Reduction {
  static constexpr std::string_view name = "max";
  using Reduction::Reduction;
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::out(0); }
  Types infer(Inputs in) const override {
    if (in[0].dtype() == DType::boolean) fail("max: x must be f32, f64 or i32; got bool; cast it first");
    count(name, in[0].shape());
    return {Type{result(in[0].shape()), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override { kernels::max(in[0].view(), axes, out[0]); }
  // dx = dy / k for the k elements that equal the maximum, else 0
  Tensors vjp(const Call& c) const override {
    const Tensor& x = c.in(0);
    const Tensor maxima = equal(x, stretch(c.out(0), x.shape()));
    const Tensor sharing = apply(Sum(axes, dropped), cast(maxima, x.dtype()));
    return {where(maxima, stretch(c.dout(0) / sharing, x.shape()), 0.0)};
  }
};

AxisMask mask_of(const char* op, const Tensor& x, const Axes& axes) {
  require_defined(op, "x", x);
  AxisMask mask = 0;
  for (const int axis : axes) {
    const AxisMask bit = axis_bit(x.shape().axis(op, axis));
    if ((mask & bit) != 0) fail("{}: axes must differ; got {} for shape {}", op, to_string(axes), x.shape());
    mask |= bit;
  }
  return mask;
}

template <class O>
Tensor reduce_all(const Tensor& x) {
  const AxisMask mask = all_axes(x.rank());
  return apply(O(mask, mask), x);
}

template <class O>
Tensor reduce(const Tensor& x, const Axes& axes, bool keep) {
  const AxisMask mask = mask_of(O::name.data(), x, axes);
  return apply(O(mask, keep ? AxisMask{0} : mask), x);
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor sum(const Tensor& x) { return ops::reduce_all<ops::Sum>(x); }
Tensor sum(const Tensor& x, const Axes& axes, bool keep) { return ops::reduce<ops::Sum>(x, axes, keep); }
Tensor mean(const Tensor& x) { return ops::reduce_all<ops::Mean>(x); }
Tensor mean(const Tensor& x, const Axes& axes, bool keep) { return ops::reduce<ops::Mean>(x, axes, keep); }
Tensor max(const Tensor& x) { return ops::reduce_all<ops::Max>(x); }
Tensor max(const Tensor& x, const Axes& axes, bool keep) { return ops::reduce<ops::Max>(x, axes, keep); }

Tensor sum_to(Tensor x, const Shape& shape) {
  ops::require_defined("sum_to", "x", x);
  if (x.shape() == shape) return x;
  if (!ops::stretches(shape, x.shape()))
    fail("sum_to: the shape must broadcast to x's; got {} for x {}", shape, x.shape());
  const int added = x.rank() - shape.rank();
  kernels::AxisMask axes = kernels::all_axes(added);
  const kernels::AxisMask dropped = axes;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != x.shape()[added + i]) axes |= kernels::axis_bit(added + i);
  return ops::apply(ops::Sum(axes, dropped), x);
}

}  // namespace capstan
