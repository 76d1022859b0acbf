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

/// What max and min share.
struct Extremum : Reduction {
  using Reduction::Reduction;
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::out(0); }
  Types check(std::string_view name, Inputs in) const {
    if (in[0].dtype() == DType::boolean) fail("{}: x must be f32, f64 or i32; got bool; cast it first", name);
    count(name, in[0].shape());
    return {Type{result(in[0].shape()), in[0].dtype()}};
  }
  // dx = dy / k for the k elements that equal the extremum, else 0
  Tensors vjp(const Call& c) const override {
    const Tensor& x = c.in(0);
    const Tensor extrema = equal(x, stretch(c.out(0), x.shape()));
    const Tensor sharing = apply(Sum(axes, dropped), cast(extrema, x.dtype()));
    return {where(extrema, stretch(c.dout(0) / sharing, x.shape()), 0.0)};
  }
};
struct Max final : Extremum {
  static constexpr std::string_view name = "max";
  using Extremum::Extremum;
  Types infer(Inputs in) const override { return check(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::max(in[0].view(), axes, out[0]); }
};
struct Min final : Extremum {
  static constexpr std::string_view name = "min";
  using Extremum::Extremum;
  Types infer(Inputs in) const override { return check(name, in); }
  void eval(Inputs in, Outputs out) const override { kernels::min(in[0].view(), axes, out[0]); }
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

Tensor min(const Tensor& x) { return ops::reduce_all<ops::Min>(x); }
Tensor min(const Tensor& x, const Axes& axes, bool keep) { return ops::reduce<ops::Min>(x, axes, keep); }

Tensor variance(const Tensor& x) {
  Axes all;
  for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  return variance(x, all);
}
Tensor variance(const Tensor& x, const Axes& axes, const VarianceOptions& options, bool keep) {
  constexpr const char* name = "variance";
  const kernels::AxisMask mask = ops::mask_of(name, x, axes);
  ops::require_float(name, "x", x);
  if (options.correction < 0) fail("variance: correction must not be negative; got {}", options.correction);
  Index count = 1, kept = 1;
  for (int i = 0; i < x.rank(); ++i) (ops::holds(mask, i) ? count : kept) *= x.shape()[i];
  if (count <= options.correction && kept > 0)
    fail("variance: there must be more elements for each result than the correction of {}; got shape {} over axes {}",
         options.correction, x.shape(), to_string(axes));
  if (kept == 0) return mean(x, axes, keep);
  const Tensor centred = x - mean(x, axes, keep_axes);
  // Not the sum divided: it may overflow where the mean does not.
  const Tensor mean_square = mean(centred * centred, axes, keep);
  if (options.correction == 0) return mean_square;
  return scale(mean_square, static_cast<double>(count) / static_cast<double>(count - options.correction));
}

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
