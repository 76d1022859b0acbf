// f64 products: packed panels and register tiles in the manner of Goto and van de Geijn (2008), on SIMD.
//
// A is packed in panels of `tile_rows` rows, B in panels of `tile_vectors` vectors of columns, both cut into slices of
// `depth` along k so that they stay in cache. The accumulators of one tile of C fill the registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/gemm_f64.cpp>
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/scratch.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
inline constexpr Index lanes = static_cast<Index>(hn::MaxLanes(D()));
// 8 × 3 accumulators of the 32 registers of AVX-512, 4 × 3 of the 16 of AVX2.
inline constexpr Index tile_rows = lanes >= 8 ? 8 : 4;
inline constexpr Index tile_vectors = lanes >= 4 ? 3 : 2;
inline constexpr Index tile_columns = tile_vectors * lanes;
inline constexpr Index depth = 256;
inline constexpr Index block_rows = 96;      // rows of A packed at a time: 192 KiB
inline constexpr Index block_columns = 960;  // columns of B packed at a time: 2 MiB
static_assert(block_rows % tile_rows == 0 && block_columns % tile_columns == 0);

/// c [tile_rows, tile_columns] (+)= Σ_k a[k][i] b[k][j].
HWY_INLINE void Tile(Index k, const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, double* HWY_RESTRICT c,
                     Index c_row, bool accumulate) {
  const D d;
  hn::Vec<D> sum[tile_rows][tile_vectors];
  for (Index i = 0; i < tile_rows; ++i)
    for (Index j = 0; j < tile_vectors; ++j) sum[i][j] = hn::Zero(d);
  for (Index p = 0; p < k; ++p) {
    hn::Vec<D> row[tile_vectors];
    for (Index j = 0; j < tile_vectors; ++j) row[j] = hn::Load(d, b + j * lanes);
    for (Index i = 0; i < tile_rows; ++i) {
      const auto factor = hn::Set(d, a[i]);
      for (Index j = 0; j < tile_vectors; ++j) sum[i][j] = hn::MulAdd(factor, row[j], sum[i][j]);
    }
    a += tile_rows;
    b += tile_columns;
  }
  for (Index i = 0; i < tile_rows; ++i)
    for (Index j = 0; j < tile_vectors; ++j) {
      double* to = c + i * c_row + j * lanes;
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, to), sum[i][j]) : sum[i][j], d, to);
    }
}

/// Rows beyond `rows` become 0.
HWY_INLINE void PackA(const double* a, Index row, Index column, Index rows, Index k, double* to) {
  for (Index i = 0; i < rows; i += tile_rows) {
    const Index used = std::min(tile_rows, rows - i);
    for (Index p = 0; p < k; ++p) {
      const double* from = a + i * row + p * column;
      for (Index r = 0; r < used; ++r) to[r] = from[r * row];
      for (Index r = used; r < tile_rows; ++r) to[r] = 0;
      to += tile_rows;
    }
  }
}

/// Columns beyond `columns` become 0.
HWY_INLINE void PackB(const double* b, Index row, Index column, Index k, Index columns, double* to) {
  for (Index j = 0; j < columns; j += tile_columns) {
    const Index used = std::min(tile_columns, columns - j);
    if (used == tile_columns && column != 1) {
      // B is stored by columns: read it along them.
      for (Index c = 0; c < tile_columns; ++c) {
        const double* from = b + (j + c) * column;
        for (Index p = 0; p < k; ++p) to[p * tile_columns + c] = from[p * row];
      }
    } else {
      for (Index p = 0; p < k; ++p) {
        const double* from = b + p * row + j * column;
        for (Index c = 0; c < used; ++c) to[p * tile_columns + c] = from[c * column];
        for (Index c = used; c < tile_columns; ++c) to[p * tile_columns + c] = 0;
      }
    }
    to += k * tile_columns;
  }
}

/// One packed block of A times one packed block of B.
HWY_INLINE void Block(const double* a, const double* b, Index rows, Index columns, Index k, double* c, Index c_row,
                      bool accumulate) {
  HWY_ALIGN double edge[tile_rows * tile_columns];
  for (Index j = 0; j < columns; j += tile_columns) {
    for (Index i = 0; i < rows; i += tile_rows) {
      const double* panel_a = a + i * k;
      const double* panel_b = b + j * k;
      double* to = c + i * c_row + j;
      const Index used_rows = std::min(tile_rows, rows - i), used_columns = std::min(tile_columns, columns - j);
      if (used_rows == tile_rows && used_columns == tile_columns) {
        Tile(k, panel_a, panel_b, to, c_row, accumulate);
        continue;
      }
      Tile(k, panel_a, panel_b, edge, tile_columns, false);
      for (Index r = 0; r < used_rows; ++r)
        for (Index s = 0; s < used_columns; ++s) {
          const double sum = edge[r * tile_columns + s];
          to[r * c_row + s] = accumulate ? to[r * c_row + s] + sum : sum;
        }
    }
  }
}

Index RoundUp(Index count, Index unit) { return (count + unit - 1) / unit * unit; }

HWY_ATTR void Packed(const Product<double>& p) {
  const Index slice = std::min(depth, p.k);
  Scratch<double> a(RoundUp(std::min(block_rows, p.m), tile_rows) * slice);
  Scratch<double> b(RoundUp(std::min(block_columns, p.n), tile_columns) * slice);
  for (Index j = 0; j < p.n; j += block_columns) {
    const Index columns = std::min(block_columns, p.n - j);
    for (Index q = 0; q < p.k; q += depth) {
      const Index k = std::min(depth, p.k - q);
      PackB(p.b + q * p.b_row + j * p.b_column, p.b_row, p.b_column, k, columns, b.data());
      for (Index i = 0; i < p.m; i += block_rows) {
        const Index rows = std::min(block_rows, p.m - i);
        PackA(p.a + i * p.a_row + q * p.a_column, p.a_row, p.a_column, rows, k, a.data());
        Block(a.data(), b.data(), rows, columns, k, p.c + i * p.c_row + j, p.c_row, p.accumulate || q > 0);
      }
    }
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(Packed);

void gemm_large(const Product<double>& p) { HWY_DYNAMIC_DISPATCH(Packed)(p); }

}  // namespace capstan::kernels
#endif
