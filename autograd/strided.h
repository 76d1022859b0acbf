// Walks a strided tensor row by row: the plain loops that the engine itself needs (dense copies, sums of cotangents).
// Not for: fast elementwise kernels (ops/kernels).
#pragma once

#include <capstan/autograd/layout.h>

namespace capstan::detail {

/// Calls f(a_position, b_position, count, a_stride, b_stride) for each innermost run of two layouts of equal shape;
/// positions in elements from the storages' starts.
template <class F>
void for_each_run(const Layout& a, const Layout& b, F&& f) {
  const int rank = a.rank();
  if (a.elements() == 0) return;
  if (rank == 0) return f(a.offset(), b.offset(), Index{1}, Index{1}, Index{1});
  Index index[max_rank] = {};
  Index at_a = a.offset(), at_b = b.offset();
  const int last = rank - 1;
  while (true) {
    f(at_a, at_b, a.size(last), a.stride(last), b.stride(last));
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      at_a += a.stride(axis);
      at_b += b.stride(axis);
      if (++index[axis] < a.size(axis)) break;
      at_a -= a.stride(axis) * a.size(axis);
      at_b -= b.stride(axis) * b.size(axis);
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace capstan::detail
