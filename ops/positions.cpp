#include <capstan/autograd/format.h>
#include <capstan/ops/positions.h>
#include <capstan/ops/require.h>

#include <bit>
#include <cmath>
#include <vector>

namespace capstan {

namespace {

std::vector<double> slopes(Index heads) {
  std::vector<double> result;
  if (heads <= 0) return result;
  const auto below = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto add = [&](Index of, Index step) {
    for (Index h = 1; h <= of && static_cast<Index>(result.size()) < heads; h += step)
      result.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(of)));
  };
  add(below, 1);
  add(2 * below, 2);
  return result;
}

}  // namespace

Tensor sinusoidal_positions(Index length, Index width, const SinusoidalOptions& options, DType dtype) {
  ops::require_float("sinusoidal_positions", "the result", dtype);
  if (!(options.base > 0) || !std::isfinite(options.base))
    fail("sinusoidal_positions: base must be positive and finite; got {}", options.base);
  Buffer table(Shape{length, width}, dtype);
  if (length == 0 || width == 0) return table;
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = table.data<T>().data();
    for (Index t = 0; t < length; ++t)
      for (Index c = 0; c < width; ++c) {
        const double exponent = static_cast<double>(c - c % 2) / static_cast<double>(width);
        const double position = static_cast<double>(options.start) + static_cast<double>(t);
        const double angle = position * std::pow(options.base, -exponent);
        *out++ = static_cast<T>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
  });
  return table;
}

Tensor alibi_slopes(Index heads, DType dtype) {
  ops::require_float("alibi_slopes", "the result", dtype);
  Buffer result(Shape{heads}, dtype);
  const std::vector<double> exact = slopes(heads);
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t h = 0; h < exact.size(); ++h) result.data<T>()[h] = static_cast<T>(exact[h]);
  });
  return result;
}

Bias alibi_bias(Index heads, Index queries, Index keys, DType dtype) {
  ops::require_float("alibi_bias", "the result", dtype);
  Buffer result(Shape{heads, queries, keys}, dtype);
  if (heads == 0 || queries == 0 || keys == 0) return {std::move(result)};
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = result.data<T>().data();
    for (const double slope : slopes(heads))
      for (Index i = 0; i < queries; ++i)
        for (Index j = 0; j < keys; ++j)
          *out++ = static_cast<T>(-slope * static_cast<double>(std::abs(j - (i + keys - queries))));
  });
  return {std::move(result)};
}

}  // namespace capstan
