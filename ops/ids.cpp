#include <capstan/autograd/format.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/embedding.h>

namespace capstan::ops {

namespace {

/// The index of the element at a row-major position.
Shape index_of(const Shape& shape, Index position) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index.set(axis, position % shape[axis]);
    position /= shape[axis];
  }
  return index;
}

}  // namespace

std::string place_of(const Shape& shape, Index position) { return to_string(index_of(shape, position)); }

void require_ids(std::string_view op, std::string_view argument, const ConstView& ids, Index bound,
                 std::optional<Index> ignore) {
  const Index position = kernels::find_outside(ids, bound, ignore);
  if (position < 0) return;
  const Shape index = index_of(ids.shape(), position);
  Index at = ids.layout->offset();
  for (int axis = 0; axis < index.rank(); ++axis) at += index[axis] * ids.layout->stride(axis);
  const std::int32_t id = static_cast<const std::int32_t*>(ids.bytes)[at];
  if (ignore)
    fail("{}: {} must be in [0, {}) or the ignored {}; got {} at {}", op, argument, bound, *ignore, id, index);
  fail("{}: {} must be in [0, {}); got {} at {}", op, argument, bound, id, index);
}

}  // namespace capstan::ops
