// Plain loops over rows: a comparison a step, first come, first kept.
#include <capstan/ops/kernels/arg.h>
#include <capstan/ops/kernels/rows.h>

#include <type_traits>

namespace capstan::kernels {
namespace {

template <class T, class Beats>
Index first_place(const T* x, Index length, Beats beats) {
  Index best = 0;
  for (Index i = 0; i < length; ++i) {
    if constexpr (std::is_floating_point_v<T>)
      if (x[i] != x[i]) return i;  // NaN
    if (beats(x[i], x[best])) best = i;
  }
  return best;
}

}  // namespace

void arg(Extreme extreme, ConstView x, int axis, View y) {
  const Index length = x.layout->size(axis);
  std::int32_t* const places = y.data<std::int32_t>();
  visit_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_input_rows<T>(Region::reduce, x, axis, 1, [&](Index row, const T* from) {
      const Index place = extreme == Extreme::largest ? first_place(from, length, [](T a, T b) { return a > b; })
                                                      : first_place(from, length, [](T a, T b) { return a < b; });
      places[row] = static_cast<std::int32_t>(place);
    });
  });
}

}  // namespace capstan::kernels
