#include <capstan/ops/kernels/rotary.h>
#include <capstan/ops/kernels/rows.h>

#include <cmath>

namespace capstan::kernels {
namespace {

/// Cosines [T, D/2], then sines: one of each for all heads and batches.
template <class T>
void fill_turns(const ConstView& positions, Index start, double base, bool inverse, Index rows, Index half, T* turns) {
  Scratch<double> frequencies(half);
  for (Index i = 0; i < half; ++i) frequencies[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
  parallel_blocks(Region::elementwise, rows, std::max(Index{1}, 1024 / std::max(Index{1}, half)),
                  [&](Index begin, Index end) {
                    for (Index t = begin; t < end; ++t) {
                      const double position = positions.layout == nullptr
                                                  ? static_cast<double>(start) + static_cast<double>(t)
                                                  : positions.data<std::int32_t>()[t * positions.layout->stride(0)];
                      for (Index i = 0; i < half; ++i) {
                        const double angle = position * frequencies[i];
                        turns[t * half + i] = static_cast<T>(std::cos(angle));
                        turns[(rows + t) * half + i] = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
                      }
                    }
                  });
}

/// Pair i is (x[i · step], x[i · step + apart]).
template <class T>
void turn_row(const T* x, const T* cosines, const T* sines, Index step, Index apart, Index half, T* y) {
  for (Index i = 0; i < half; ++i) {
    const T a = x[i * step], b = x[i * step + apart];
    y[i * step] = a * cosines[i] - b * sines[i];
    y[i * step + apart] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void rotary(ConstView x, Pairs pairs, ConstView positions, Index start, double base, bool inverse, View y) {
  if (x.elements() == 0) return;
  const Index rows = x.shape().back(1), half = x.shape().back() / 2;
  visit_float(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    Scratch<T> turns(2 * rows * half);
    fill_turns(positions, start, base, inverse, rows, half, turns.data());
    for_rows<T, 1>(Region::elementwise, {x}, y, x.layout->rank() - 1, 1,
                   [&](Index row, const std::array<const T*, 1>& from, T* to) {
                     const T* cosines = turns.data() + row % rows * half;
                     const T* sines = cosines + rows * half;
                     // Constants, so that both loops are compiled for their stride.
                     if (pairs == Pairs::half_split) {
                       turn_row(from[0], cosines, sines, 1, half, half, to);
                     } else {
                       turn_row(from[0], cosines, sines, 2, 1, half, to);
                     }
                   });
  });
}

}  // namespace capstan::kernels
