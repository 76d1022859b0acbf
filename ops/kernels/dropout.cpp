#include <capstan/ops/kernels/dropout.h>
#include <capstan/ops/kernels/element_loop.h>

#include <algorithm>

namespace capstan::kernels {
namespace {

/// Bits made at a time.
constexpr Index chunk = 256;

template <class T>
void drop(const Piece& piece, Index first, const Keep& keep, T factor) {
  const T* x = piece.input<T>(0);
  T* y = piece.output<T>();
  const Index step = piece.scalar[0] ? 0 : 1;
  bool kept[chunk];
  for (Index begin = 0; begin < piece.count; begin += chunk) {
    const Index count = std::min(chunk, piece.count - begin);
    keep.fill(kept, count, first + begin);
    for (Index i = 0; i < count; ++i) {
      const T scaled = x[(begin + i) * step] * factor;
      y[begin + i] = kept[i] ? scaled : T{};
    }
  }
}

}  // namespace

void dropout(ConstView x, const Keep& keep, double factor, View y) {
  visit_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_pieces(Region::random, y, {x}, costly_grain, [&](const Piece& piece) {
      // y is dense, so a piece's place in memory is its number.
      drop<T>(piece, piece.output<T>() - y.data<T>(), keep, static_cast<T>(factor));
    });
  });
}

}  // namespace capstan::kernels
