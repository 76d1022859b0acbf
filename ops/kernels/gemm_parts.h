// What gemm.cpp chooses from; each part runs on the calling thread alone. Not for: users (gemm.h).
#pragma once

#include <capstan/ops/kernels/gemm.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <optional>

namespace capstan::kernels {

/// True if gemm_small serves this product: so small that packing would cost more than the product.
bool is_small(const Product<float>& p);
bool is_small(const Product<double>& p);

/// Elements of a B by columns that gemm_small copies to its stack at most.
inline constexpr Index copy_elements = 512;
/// Wants m, n, k > 0; honours `accumulate` and ignores `bias` (gemm.cpp has put it into C).
void gemm_small(const Product<float>& p);
void gemm_small(const Product<double>& p);

/// True if gemm_few serves it: not small, few rows, all along k.
template <class T>
bool is_few(const Product<T>& p) {
  return p.m <= 4 && p.a_column == 1 && p.b_row == 1;
}
/// Wants m, n, k > 0; honours `accumulate` and ignores `bias`.
void gemm_few(const Product<float>& p);
void gemm_few(const Product<double>& p);

/// A slice of B [depth, columns] that gemm_large packs has at most these sides: 576 KiB, half of a second-level cache.
template <class T>
inline constexpr Index slice_depth = sizeof(T) == 4 ? 384 : 256;
template <class T>
inline constexpr Index slice_columns = sizeof(T) == 4 ? 384 : 288;
/// Columns that gemm_large takes at most: where the slice is not as deep, it may be as much wider, up to 4 times.
template <class T>
Index block_columns(Index k) {
  const Index depth = std::clamp(k, slice_depth<T> / 4, slice_depth<T>);
  return slice_columns<T> * slice_depth<T> / depth / 48 * 48;
}

/// All of a product's B as gemm_large packs it, for the products after it that have the same B.
template <class T>
using PackedB = std::optional<Scratch<T>>;

/// Wants m, n, k > 0 and n ≤ block_columns(k); honours `bias` unless it accumulates. B is taken from `packed` if it holds
/// one, else packed into it; slice by slice in memory of its own if `packed` is null.
void gemm_large(const Product<float>& p, PackedB<float>* packed);
void gemm_large(const Product<double>& p, PackedB<double>* packed);

}  // namespace capstan::kernels
