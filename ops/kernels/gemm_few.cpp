// Products of a few rows by a matrix that lies in memory by columns, y = x Wᵀ for one token: dot products along k, in
// place. To pack B would take longer than the product.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/gemm_few.cpp>
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/partial-inl.h>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements of C at (i, j) and on, rows × columns of them.
template <Index rows, Index columns, class T>
HWY_INLINE void Dots(const Product<T>& p, Index i, Index j) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr Index lanes = static_cast<Index>(hn::MaxLanes(d));
  const T *a = p.a + i * p.a_row, *b = p.b + j * p.b_column;
  V sum[rows][columns];
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) sum[r][c] = hn::Zero(d);
  const auto add = [&](const auto& load) HWY_ATTR {
    V line[columns];
    for (Index c = 0; c < columns; ++c) line[c] = load(b + c * p.b_column);
    for (Index r = 0; r < rows; ++r) {
      const V factors = load(a + r * p.a_row);
      for (Index c = 0; c < columns; ++c) sum[r][c] = hn::MulAdd(factors, line[c], sum[r][c]);
    }
  };
  Index k = 0;
  for (; k + lanes <= p.k; k += lanes) add([&](const T* x) HWY_ATTR { return hn::LoadU(d, x + k); });
  if (k < p.k) add([&](const T* x) HWY_ATTR { return LoadPart(d, x + k, p.k - k); });
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) {
      T& to = p.c[(i + r) * p.c_row + j + c];
      const T dot = hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
      to = p.accumulate ? to + dot : dot;
    }
}

template <Index rows, class T>
HWY_INLINE void DotsOfRows(const Product<T>& p, Index i) {
  Index j = 0;
  for (; j + 4 <= p.n; j += 4) Dots<rows, 4>(p, i, j);
  for (; j < p.n; ++j) Dots<rows, 1>(p, i, j);
}

template <class T>
HWY_INLINE void FewOf(const Product<T>& p) {
  Index i = 0;
  for (; i + 2 <= p.m; i += 2) DotsOfRows<2>(p, i);
  if (i < p.m) DotsOfRows<1>(p, i);
}

HWY_ATTR void FewF32(const Product<float>& p) { FewOf(p); }
HWY_ATTR void FewF64(const Product<double>& p) { FewOf(p); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(FewF32);
HWY_EXPORT(FewF64);

void gemm_few(const Product<float>& p) { HWY_DYNAMIC_DISPATCH(FewF32)(p); }
void gemm_few(const Product<double>& p) { HWY_DYNAMIC_DISPATCH(FewF64)(p); }

}  // namespace capstan::kernels
#endif
