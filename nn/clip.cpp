// Clipping of gradients by their common norm.
#include <capstan/autograd/format.h>
#include <capstan/nn/optim.h>
#include <capstan/ops/kernels/parallel.h>

#include <algorithm>
#include <cmath>

namespace capstan::nn {

namespace {

/// Reduces fixed blocks in parallel, then the blocks' results in order: the same bytes for any thread count.
template <class Block>
double blockwise(Index count, double start, Block&& block, double (*join)(double, double)) {
  constexpr Index grain = 1 << 15;
  std::vector<double> partial(static_cast<std::size_t>((count + grain - 1) / grain), start);
  kernels::parallel_blocks(kernels::Region::optimizer, count, grain, [&](Index begin, Index end) {
    partial[static_cast<std::size_t>(begin / grain)] = block(begin, end);
  });
  double result = start;
  for (const double part : partial) result = join(result, part);
  return result;
}

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double plus(double a, double b) { return a + b; }

double largest_magnitude(const Tensor& x) {
  return visit_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* at = x.data<T>().data();
    return blockwise(
        x.elements(), 0,
        [&](Index begin, Index end) {
          double largest = 0;
          for (Index i = begin; i < end; ++i) largest = larger(largest, std::abs(static_cast<double>(at[i])));
          return largest;
        },
        larger);
  });
}

double scaled_square_sum(const Tensor& x, double factor) {
  return visit_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* at = x.data<T>().data();
    return blockwise(
        x.elements(), 0,
        [&](Index begin, Index end) {
          double sum = 0;
          for (Index i = begin; i < end; ++i) {
            const double scaled = static_cast<double>(at[i]) * factor;
            sum += scaled * scaled;
          }
          return sum;
        },
        plus);
  });
}

}  // namespace

double detail::clip(const std::vector<Tensor*>& gradients, double max_norm) {
  if (!(max_norm > 0)) fail("clip_gradient_norm: max_norm must be positive; got {}", max_norm);
  std::vector<Tensor> dense;
  double largest = 0;
  for (const Tensor* x : gradients) {
    dense.push_back(x->dense());
    largest = larger(largest, largest_magnitude(dense.back()));
  }
  if (!std::isfinite(largest))
    fail("clip_gradient_norm: gradients must be finite; got {}; nothing was changed", largest);
  if (largest == 0) return 0;
  // Scaled by a power of two near the largest magnitude: the squares neither overflow nor vanish, and scaling is exact.
  const int exponent = std::max(std::ilogb(largest), -1000);  // 2^1074 is beyond f64
  double sum = 0;
  for (const Tensor& x : dense) sum += scaled_square_sum(x, std::scalbn(1.0, -exponent));
  const double norm = std::scalbn(std::sqrt(sum), exponent);
  if (!std::isfinite(norm)) fail("clip_gradient_norm: the norm must be finite; got {}; nothing was changed", norm);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  dense.clear();
  for (Tensor* x : gradients) {
    detail::Loan loan(*x);
    visit_float((*loan).dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* at = (*loan).data<T>().data();
      kernels::parallel_blocks(kernels::Region::optimizer, (*loan).elements(), 1 << 15, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) at[i] = static_cast<T>(static_cast<double>(at[i]) * factor);
      });
    });
  }
  return norm;
}

}  // namespace capstan::nn
