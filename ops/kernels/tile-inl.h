// The product of a few rows by a few vectors of columns: the inner kernel of matrix products and of attention. For
// inclusion by SIMD .cpp files. Not for: blocks that stay in caches, packing, threads (gemm_large.cpp, attention_*.cpp).

#if defined(CAPSTAN_OPS_KERNELS_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_TILE_INL_H
#undef CAPSTAN_OPS_KERNELS_TILE_INL_H
#else
#define CAPSTAN_OPS_KERNELS_TILE_INL_H
#endif

#include <capstan/autograd/shape.h>

#include <utility>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr Index lanes = static_cast<Index>(hn::MaxLanes(hn::ScalableTag<T>()));

/// f(0), f(1) … f(count − 1) with constants: an array of vectors that is indexed by them stays in registers, where GCC would
/// store and load it around each loop.
template <Index count, class F>
HWY_INLINE void Unrolled(const F& f) {
  [&]<Index... i>(std::integer_sequence<Index, i...>) HWY_ATTR HWY_FLATTEN {
    (f(std::integral_constant<Index, i>()), ...);
  }
  (std::make_integer_sequence<Index, count>());
}

/// C = start + A · B. A is read element by element, B and C by vectors.
template <class T>
struct TileProduct {
  Index depth;
  const T* a;
  Index a_row, a_step;  // element (r, k) at r · a_row + k · a_step
  const T* b;
  Index b_row;
  const T* start;
  Index start_row;  // 0: one row for all
  T* c;
  Index c_row;
};

/// Rows whose accumulators, with a row of B, fill the registers: 32 of AVX-512, else 16.
template <class T>
constexpr Index tile_rows(Index vectors) {
  const bool many_registers = lanes<T> * sizeof(T) == 64;
  const Index wide[] = {16, 12, 8, 6}, narrow[] = {8, 6, 4, 3};
  return many_registers ? wide[vectors - 1] : narrow[vectors - 1];
}

template <Index rows, Index vectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void Tile(D d, const TileProduct<T>& p, Index row) {
  using V = hn::Vec<D>;
  constexpr Index L = static_cast<Index>(hn::MaxLanes(D()));
  V sum[rows][vectors];
  // Copies, since a store to C might change p for all that the compiler knows.
  const Index start_row = p.start_row, c_row = p.c_row;
  const T* start = p.start + row * start_row;
  const auto each = [](const auto& f) HWY_ATTR {
    Unrolled<rows>([&](auto r) HWY_ATTR { Unrolled<vectors>([&](auto v) HWY_ATTR { f(r, v); }); });
  };
  each([&](auto r, auto v) HWY_ATTR { sum[r][v] = hn::LoadU(d, start + r * start_row + v * L); });
  const T* a = p.a + row * p.a_row;
  const T* b = p.b;
  const Index a_row = p.a_row, a_step = p.a_step, b_row = p.b_row;
  for (Index k = p.depth; k > 0; --k) {
    V line[vectors];
    Unrolled<vectors>([&](auto v) HWY_ATTR { line[v] = hn::LoadU(d, b + v * L); });
    each([&](auto r, auto v) HWY_ATTR { sum[r][v] = hn::MulAdd(hn::Set(d, a[r * a_row]), line[v], sum[r][v]); });
    a += a_step;
    b += b_row;
  }
  T* c = p.c + row * c_row;
  each([&](auto r, auto v) HWY_ATTR { hn::StoreU(sum[r][v], d, c + r * c_row + v * L); });
}

template <Index vectors, class D, class T = hn::TFromD<D>>
HWY_NOINLINE void TileRows(D d, const TileProduct<T>& p, Index rows) {
  constexpr Index most = tile_rows<T>(vectors);
  Index row = 0;
  for (; row + most <= rows; row += most) Tile<most, vectors>(d, p, row);
  if constexpr (most > 8) {
    if (row + 8 <= rows) {
      Tile<8, vectors>(d, p, row);
      row += 8;
    }
  }
  if constexpr (most > 4) {
    if (row + 4 <= rows) {
      Tile<4, vectors>(d, p, row);
      row += 4;
    }
  }
  if (row + 2 <= rows) {
    Tile<2, vectors>(d, p, row);
    row += 2;
  }
  if (row < rows) Tile<1, vectors>(d, p, row);
}

/// C [rows, vectors · lanes of D] = start + A · B; vectors in [1, 4].
template <class T, class D = hn::ScalableTag<T>>
HWY_INLINE void Multiply(const TileProduct<T>& p, Index rows, Index vectors, D d = {}) {
  switch (vectors) {
    case 1: return TileRows<1>(d, p, rows);
    case 2: return TileRows<2>(d, p, rows);
    case 3: return TileRows<3>(d, p, rows);
    default: return TileRows<4>(d, p, rows);
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
