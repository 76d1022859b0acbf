#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/copy.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/require.h>
#include <capstan/ops/stack.h>

#include <algorithm>

namespace capstan::ops {
namespace {

struct Flip final : Op {
  static constexpr std::string_view name = "flip";
  unsigned axes = 0;  // bit i: axis i
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  // A layout with negative strides would do without the copy, but not every kernel expects one.
  void eval(Inputs in, Outputs out) const override {
    if (out[0].elements() == 0) return;
    const Layout& x = in[0].layout();
    Index strides[max_rank], offset = x.offset();
    for (int i = 0; i < x.rank(); ++i) {
      const bool flipped = (axes >> i & 1) != 0;
      strides[i] = flipped ? -x.stride(i) : x.stride(i);
      if (flipped) offset += (x.size(i) - 1) * x.stride(i);
    }
    const Layout backwards(x.shape(), strides, offset);
    kernels::copy({in[0].view().bytes, &backwards, in[0].dtype()}, out[0]);
  }
  Tensors vjp(const Call& c) const override { return {apply(*this, c.dout(0))}; }
};

/// x's shape with another axis of this size before `axis`.
Shape with_axis(const Shape& x, int axis, Index size) {
  Shape y;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == axis) y.push_back(size);
    if (i < x.rank()) y.push_back(x[i]);
  }
  return y;
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor stack(std::span<const Tensor> tensors, int axis) {
  if (tensors.empty()) fail("stack: at least one tensor is needed; got none");
  const Tensor& first = tensors[0];
  for (const Tensor& x : tensors) {
    ops::require_defined("stack", "each tensor", x);
    if (x.shape() != first.shape() || x.dtype() != first.dtype())
      fail("stack: tensors must have one shape and dtype; got {} {} and, as number {}, {} {}", first.dtype(),
           first.shape(), &x - tensors.data(), x.dtype(), x.shape());
  }
  const int rank = first.rank();
  if (rank == max_rank) fail("stack: tensors must have at most {} axes; got {}", max_rank - 1, first.shape());
  if (axis < -rank - 1 || axis > rank)
    fail("stack: axis must be in [{}, {}]; got {} for tensors {}", -rank - 1, rank, axis, first.shape());
  if (axis < 0) axis += rank + 1;
  std::vector<Tensor> layers;
  for (const Tensor& x : tensors) layers.push_back(reshape(x, ops::with_axis(x.shape(), axis, 1)));
  return concat(layers, axis);
}
Tensor stack(std::initializer_list<Tensor> tensors, int axis) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, std::span<const Index> sizes, int axis) {
  ops::require_defined("split", "x", x);
  axis = x.shape().axis("split", axis);
  Index rest = x.shape()[axis];
  const bool fits = std::all_of(sizes.begin(), sizes.end(), [&](Index size) {
    if (size < 0 || size > rest) return false;
    rest -= size;
    return true;
  });
  if (!fits || rest != 0)
    fail("split: sizes must not be negative and add up to axis {}; got [{}] for x {}", axis, fmt::join(sizes, ", "),
         x.shape());
  std::vector<Tensor> parts;
  Index start = 0;
  for (const Index size : sizes) {
    parts.push_back(slice(x, axis, start, start + size));
    start += size;
  }
  return parts;
}
std::vector<Tensor> split(const Tensor& x, std::initializer_list<Index> sizes, int axis) {
  return split(x, std::span<const Index>(sizes.begin(), sizes.size()), axis);
}
std::vector<Tensor> split(const Tensor& x, Index parts, int axis) {
  ops::require_defined("split", "x", x);
  const Index size = x.shape()[x.shape().axis("split", axis)];
  if (parts < 1 || parts > std::max<Index>(size, 1) || size % parts != 0)
    fail("split: parts must divide axis {}; got {} for x {}", x.shape().axis("split", axis), parts, x.shape());
  return split(x, std::vector<Index>(static_cast<std::size_t>(parts), size / parts), axis);
}

Tensor repeat_interleave(const Tensor& x, Index count, int axis) {
  ops::require_defined("repeat_interleave", "x", x);
  axis = x.shape().axis("repeat_interleave", axis);
  if (count < 0) fail("repeat_interleave: count must not be negative; got {}", count);
  if (count == 1) return x;
  if (count > (Index{1} << 60) / std::max(x.shape()[axis], Index{1}))
    fail("repeat_interleave: the repeated axis must not exceed 2^60 elements; got count {} for axis {} of x {}", count,
         axis, x.shape());
  if (x.rank() == max_rank) fail("repeat_interleave: x must have at most {} axes; got {}", max_rank - 1, x.shape());
  const Tensor copies =
      broadcast_to(reshape(x, ops::with_axis(x.shape(), axis + 1, 1)), ops::with_axis(x.shape(), axis + 1, count));
  Shape y = x.shape();
  y.set(axis, copies.shape()[axis] * count);
  return reshape(copies, y);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  ops::require_defined("flip", "x", x);
  ops::Flip op;
  for (const int axis : axes) {
    const unsigned bit = 1u << x.shape().axis("flip", axis);
    if ((op.axes & bit) != 0) fail("flip: axes must differ; got {} for shape {}", to_string(axes), x.shape());
    op.axes |= bit;
  }
  return axes.size() == 0 ? x : ops::apply(op, x);
}

}  // namespace capstan
