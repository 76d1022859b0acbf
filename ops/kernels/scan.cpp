#include <capstan/ops/kernels/rows.h>
#include <capstan/ops/kernels/scan.h>

#include <type_traits>

namespace capstan::kernels {

void cumsum(ConstView x, int axis, bool reverse, View y) {
  const Index length = x.layout->size(axis);
  visit_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint32_t>;
    for_rows<T, 1>(Region::reduce, {x}, y, axis, 1, [&](Index, const auto& in, T* out) {
      Sum sum = 0;
      for (Index i = 0; i < length; ++i) {
        const Index place = reverse ? length - 1 - i : i;
        sum += static_cast<Sum>(in[0][place]);
        out[place] = static_cast<T>(sum);
      }
    });
  });
}

}  // namespace capstan::kernels
