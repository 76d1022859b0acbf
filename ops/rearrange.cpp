#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/copy.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

#include <algorithm>
#include <array>
#include <vector>

namespace capstan::ops {
namespace {

// ---- views ----------------------------------------------------------------------------------------------------------

struct Reshape final : Op {
  static constexpr std::string_view name = "reshape";
  Shape shape;
  explicit Reshape(const Shape& shape_) : shape(shape_) {}
  Types infer(Inputs in) const override {
    if (in[0].elements() != shape.elements())
      fail("reshape: element counts must be equal; got x {} ({} elements) for shape {} ({})", in[0].shape(),
           in[0].elements(), shape, shape.elements());
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().reshaped(shape); }
  void eval(Inputs in, Outputs out) const override {
    const Layout rows(in[0].shape());
    kernels::copy(in[0].view(), View{out[0].bytes, &rows, out[0].dtype});
  }
  Tensors vjp(const Call& c) const override { return {reshape(c.dout(0), c.in_shape(0))}; }
};

struct Transpose final : Op {
  static constexpr std::string_view name = "transpose";
  int a, b;
  Transpose(int a_, int b_) : a(a_), b(b_) {}
  Types infer(Inputs in) const override {
    Shape shape = in[0].shape();
    shape.set_trusted(a, in[0].shape()[b]);
    shape.set_trusted(b, in[0].shape()[a]);
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().transposed(a, b); }
  Tensors vjp(const Call& c) const override { return {transpose(c.dout(0), a, b)}; }
};

struct Permute final : Op {
  static constexpr std::string_view name = "permute";
  std::array<int, max_rank> axes{};
  Types infer(Inputs in) const override {
    Shape shape = in[0].shape();
    for (int i = 0; i < shape.rank(); ++i) shape.set_trusted(i, in[0].shape()[axes[static_cast<std::size_t>(i)]]);
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().permuted(axes.data()); }
  // The inverse permutation: axis axes[i] of dx is axis i of dy.
  Tensors vjp(const Call& c) const override {
    Permute inverse;
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.in_shape(0).rank()); ++i)
      inverse.axes[static_cast<std::size_t>(axes[i])] = static_cast<int>(i);
    return {apply(inverse, c.dout(0))};
  }
};

struct BroadcastTo final : Op {
  static constexpr std::string_view name = "broadcast_to";
  Shape shape;
  explicit BroadcastTo(const Shape& shape_) : shape(shape_) {}
  Types infer(Inputs in) const override {
    if (!stretches(in[0].shape(), shape))
      fail("broadcast_to: x must stretch to the shape (equal sizes, or 1, aligned at the last axis); got x {} for {}",
           in[0].shape(), shape);
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override { return in[0].layout().broadcast_to(shape); }
  Tensors vjp(const Call& c) const override { return {sum_to(c.dout(0), c.in_shape(0))}; }
};

/// Where elements of one axis stand in a longer one: `start`, then every `step`-th, `count` of them.
struct Spread {
  Index start, count, step;
  /// From the first to behind the last.
  Index span() const { return count == 0 ? 0 : (count - 1) * step + 1; }
};

struct Slice final : Op {
  static constexpr std::string_view name = "slice";
  int axis;
  Spread spread;
  Slice(int axis_, const Spread& spread_) : axis(axis_), spread(spread_) {}
  Types infer(Inputs in) const override {
    Shape shape = in[0].shape();
    shape.set(axis, spread.count);
    return {Type{shape, in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override {
    return in[0].layout().sliced(axis, spread.start, spread.count, spread.step);
  }
  Tensors vjp(const Call& c) const override {
    const Index after = c.in_shape(0)[axis] - spread.start - spread.span();
    return {pad(c.dout(0), axis, spread.start, after, spread.step)};
  }
};

// ---- copies ---------------------------------------------------------------------------------------------------------

/// Calls f with a part of y along one axis.
template <class F>
void with_part(const View& y, int axis, Index start, Index count, Index step, F f) {
  if (count == 0) return;
  const Layout part = y.layout->sliced(axis, start, count, step);
  f(View{y.bytes, &part, y.dtype});
}

struct Pad final : Op {
  static constexpr std::string_view name = "pad";
  int axis;
  Spread spread;  // of x in the result
  Index after;
  Pad(int axis_, const Spread& spread_, Index after_) : axis(axis_), spread(spread_), after(after_) {}
  Types infer(Inputs in) const override {
    Shape shape;
    for (int i = 0; i < in[0].rank(); ++i)
      shape.push_back(i == axis ? spread.start + spread.span() + after : in[0].shape()[i]);
    return {Type{shape, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    const auto clear = [](const View& part) { kernels::fill(part, 0); };
    if (spread.step == 1) {
      with_part(out[0], axis, 0, spread.start, 1, clear);
      with_part(out[0], axis, spread.start + spread.count, after, 1, clear);
    } else {
      clear(out[0]);
    }
    with_part(out[0], axis, spread.start, spread.count, spread.step,
              [&](const View& part) { kernels::copy(in[0].view(), part); });
  }
  Tensors vjp(const Call& c) const override { return {apply(Slice(axis, spread), c.dout(0))}; }
};

struct Concat final : Op {
  static constexpr std::string_view name = "concat";
  int axis;
  explicit Concat(int axis_) : axis(axis_) {}
  Types infer(Inputs in) const override {
    Shape shape = in[0].shape();
    Index total = 0;
    for (int i = 0; i < in.size(); ++i) {
      Shape other = in[i].shape();
      if (other.rank() == shape.rank()) other.set(axis, shape[axis]);
      if (in[i].dtype() != in[0].dtype() || other != shape)
        fail(
            "concat: tensors must agree in dtype and in all sizes but that of axis {}; got {} {} and, as number {}, {} "
            "{}",
            axis, in[0].dtype(), in[0].shape(), i, in[i].dtype(), in[i].shape());
      if (__builtin_add_overflow(total, in[i].shape()[axis], &total)) fail("concat: at most 2^62 elements; got more along axis {}", axis);
    }
    shape.set(axis, total);
    return {Type{shape, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    Index start = 0;
    for (int i = 0; i < in.size(); ++i) {
      const Index count = in[i].shape()[axis];
      with_part(out[0], axis, start, count, 1, [&](const View& part) { kernels::copy(in[i].view(), part); });
      start += count;
    }
  }
  Tensors vjp(const Call& c) const override {
    Tensors gradients;
    Index start = 0;
    for (int i = 0; i < c.inputs(); ++i) {
      const Index count = c.in_shape(i)[axis];
      gradients.push_back(c.wants(i) ? apply(Slice(axis, {start, count, 1}), c.dout(0)) : Tensor());
      start += count;
    }
    return gradients;
  }
};

struct OneHot final : Op {
  static constexpr std::string_view name = "one_hot";
  Index classes;
  DType dtype;
  OneHot(Index classes_, DType dtype_) : classes(classes_), dtype(dtype_) {}
  Types infer(Inputs in) const override {
    require_dtype(name, "ids", in[0], DType::i32);
    Shape shape = in[0].shape();
    shape.push_back(classes);
    return {Type{shape, dtype}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "ids", in[0].view(), classes);
    kernels::fill(out[0], 0);
    const Tensor ids = in[0].dense();
    visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      T* row = out[0].data<T>();
      for (const std::int32_t id : ids.data<std::int32_t>()) {
        row[id] = T{1};
        row += classes;
      }
    });
  }
  Tensors vjp(const Call& c) const override { return no_gradient(c, "ids are whole numbers"); }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

using ops::apply;
using ops::require_defined;

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (x.defined() && x.shape() == shape) return x;
  return apply(ops::Reshape(shape), x);
}

Tensor reshape(const Tensor& x, std::initializer_list<Index> sizes) {
  require_defined("reshape", "x", x);
  std::vector<Index> filled(sizes);
  const auto unknown = std::find(filled.begin(), filled.end(), Index{-1});
  if (unknown != filled.end()) {
    *unknown = 1;
    Index rest = 0;
    if (std::find(filled.begin(), filled.end(), Index{-1}) == filled.end()) rest = Shape(filled).elements();
    if (rest == 0 || x.elements() % rest != 0)
      fail("reshape: one size may be -1, where the others divide the element count; got sizes [{}] for x {}",
           fmt::join(sizes, ", "), x.shape());
    *unknown = x.elements() / rest;
  }
  return reshape(x, Shape(filled));
}

Tensor transpose(const Tensor& x, int a, int b) {
  require_defined("transpose", "x", x);
  return apply(ops::Transpose(x.shape().axis("transpose", a), x.shape().axis("transpose", b)), x);
}

Tensor permute(const Tensor& x, const Axes& axes) {
  require_defined("permute", "x", x);
  ops::Permute op;
  unsigned seen = 0;
  for (int i = 0; i < axes.size(); ++i) {
    const int axis = x.shape().axis("permute", axes[i]);
    op.axes[static_cast<std::size_t>(i)] = axis;
    seen |= 1u << axis;
  }
  if (axes.size() != x.rank() || seen + 1 != 1u << x.rank())
    fail("permute: each axis must be named once; got {} for x {}", to_string(axes), x.shape());
  return apply(op, x);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.defined() && x.shape() == shape) return x;
  return apply(ops::BroadcastTo(shape), x);
}

Tensor slice(const Tensor& x, int axis, Index start, Index stop, Index step) {
  require_defined("slice", "x", x);
  axis = x.shape().axis("slice", axis);
  const Index size = x.shape()[axis];
  if (stop == to_end) stop = size;
  if (start < -size || start > size || stop < -size || stop > size)
    fail("slice: start and stop must be in [{}, {}]; got {} and {} for axis {} of x {}", -size, size, start, stop, axis,
         x.shape());
  if (step < 1) fail("slice: step must be at least 1; got {}", step);
  const Index first = start < 0 ? start + size : start, last = stop < 0 ? stop + size : stop;
  if (first > last)
    fail("slice: start must not lie beyond stop; got {} and {} for axis {} of x {}", start, stop, axis, x.shape());
  // A step beyond the axis is as good as its size, which cannot overflow a stride.
  step = std::min(step, std::max(size, Index{1}));
  return apply(ops::Slice(axis, {first, first == last ? 0 : (last - first - 1) / step + 1, step}), x);
}

Tensor pad(const Tensor& x, int axis, Index before, Index after, Index step) {
  require_defined("pad", "x", x);
  axis = x.shape().axis("pad", axis);
  constexpr Index largest = Index{1} << 60;
  const Index count = x.shape()[axis];
  if (before < 0 || after < 0 || step < 1)
    fail("pad: before and after must not be negative and step at least 1; got {}, {} and {}", before, after, step);
  if (before > largest || after > largest || step > largest / std::max(count, Index{1}))
    fail("pad: the padded axis must not exceed 2^60 elements; got before {}, after {}, step {} for axis {} of x {}",
         before, after, step, axis, x.shape());
  return apply(ops::Pad(axis, {before, count, step}, after), x);
}

Tensor concat(std::span<const Tensor> tensors, int axis) {
  if (tensors.empty()) fail("concat: at least one tensor is needed; got none");
  for (const Tensor& x : tensors) require_defined("concat", "each tensor", x);
  static_assert(ops::listed(ops::Concat::name));
  const ops::Concat op(tensors[0].shape().axis("concat", axis));
  return std::move(record(op, tensors)[0]);
}
Tensor concat(std::initializer_list<Tensor> tensors, int axis) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

Tensor one_hot(const Tensor& ids, Index classes, DType dtype) {
  if (classes < 0) fail("one_hot: classes must not be negative; got {}", classes);
  return apply(ops::OneHot(classes, dtype), ids);
}

}  // namespace capstan
