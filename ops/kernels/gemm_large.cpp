// Large products, f32 and f64 alike: packed slices of B and register tiles in the manner of Goto and van de Geijn (2008).
//
//                                   ┌───┬───┬───┬──┐
//              a slice of B, packed │   │   │   │  │ depth      panels of 3 vectors of columns, each dense; the slice
//                                   │   │   │   │  │            stays in the second-level cache
//                                   └───┴───┴───┴──┘
//               depth
//            ┌─────────┐            ┌───┬───┬───┬──┐
//   rows of A│ a group │ 8 or 24    │▓▓▓│ → │   │  │            a group stays in the first-level cache
//            ├─────────┤            ├───┴───┴───┴──┤
//            │         │            │      C       │
//
// A with dense rows is read in place, otherwise its rows are packed too, a few groups at a time. B is read in place where
// its rows are whole vectors close to each other.
//
// Tiles start from what C holds (or from the bias, or from 0), so every element of C is one chain of fused
// multiplications and additions in the order of k, however the product was cut.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/gemm_large.cpp>
#include <capstan/ops/kernels/gemm_parts.h>
#include <capstan/ops/kernels/scratch.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/partial-inl.h>
#include <capstan/ops/kernels/tile-inl.h>
#include <capstan/ops/kernels/transpose-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr Index panel_vectors = 3;
/// Rows of a group: most_rows or 8. Packed at a time: whole cache lines where A lies by columns.
inline constexpr Index most_rows = 24, packed_rows = 96;

template <class T>
constexpr Index VectorsOf(Index columns) {
  return (columns + lanes<T> - 1) / lanes<T>;
}

/// Vectors of the next panel where `left` are left: 3, but 2 + 2 for the last four.
constexpr Index PanelWidth(Index left) { return left == 4 ? 2 : std::min(left, panel_vectors); }

// ---- packing --------------------------------------------------------------------------------------------------------

template <class T>
HWY_INLINE void PrefetchRow(const T* row, Index count) {
  for (Index i = 0; i < count; i += 64 / static_cast<Index>(sizeof(T))) hwy::Prefetch(row + i);
}

template <Index vectors, class T>
HWY_INLINE void CopyVectors(const T* from, T* to) {
  const hn::ScalableTag<T> d;
  for (Index v = 0; v < vectors; ++v) hn::Store(hn::LoadU(d, from + v * lanes<T>), d, to + v * lanes<T>);
}

/// A slice of B [depth, columns] as panels: the one that begins at vector v lies at v · lanes · depth, its rows dense.
/// Columns beyond the last one become 0.
template <class T>
HWY_INLINE void PackB(const T* b, Index row, Index column, Index depth, Index columns, T* to) {
  constexpr Index L = lanes<T>;
  const Index vectors = VectorsOf<T>(columns), whole = column == 1 ? columns / L : 0;
  // Dense rows: row by row, as memory likes it; the end of a row is in a new page, where the processor does not look
  // ahead by itself.
  if (whole > 0) {
    for (Index q = 0; q < depth; ++q) {
      const T* from = b + q * row;
      PrefetchRow(from + 4 * row, whole * L);
      for (Index v = 0; v < whole;) {
        const Index width = PanelWidth(vectors - v);
        T* panel = to + (v * depth + q * width) * L;
        if (v + 3 <= whole && width == 3) {
          CopyVectors<3>(from + v * L, panel);
        } else {
          for (Index i = 0; i < std::min(width, whole - v); ++i) CopyVectors<1>(from + (v + i) * L, panel + i * L);
        }
        v += width;
      }
    }
  }
  // What remains: the columns of a cut vector, or all of them.
  for (Index v = 0; v < vectors;) {
    const Index width = PanelWidth(vectors - v) * L, used = std::min(width, columns - v * L);
    const Index first = std::clamp(whole * L - v * L, Index{0}, used);
    const T* from = b + v * L * column;
    T* panel = to + v * L * depth;
    v += width / L;
    if (used < width)
      for (Index q = 0; q < depth; ++q) std::fill_n(panel + q * width + used, width - used, T{0});
    if (row == 1 && column != 1) {
      Transpose(from, column, used, depth, T{1}, panel, width);
    } else if (first < used) {
      for (Index q = 0; q < depth; ++q)
        for (Index j = first; j < used; ++j) panel[q * width + j] = from[q * row + j * column];
    }
  }
}

/// From one packed group of A to the next: an odd number of lines, or all of them would want the same places in the cache.
template <class T>
constexpr Index GroupStep(Index depth, Index group) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  return ((depth * group + line - 1) / line | 1) * line;
}

/// Rows of A [rows, depth] in groups, each [depth, group].
template <Index group, class T>
HWY_INLINE void PackA(const T* a, Index row, Index column, Index rows, Index depth, T* to) {
  const Index step = GroupStep<T>(depth, group);
  const hn::CappedTag<T, 8> d;  // divides any group
  constexpr Index L = static_cast<Index>(hn::MaxLanes(d));
  const Index whole = row == 1 ? rows / L * L : 0;
  for (Index q = 0; q < depth; ++q) {
    const T* from = a + q * column;
    T* panel = to + q * group;
    if (row == 1) PrefetchRow(from + 8 * column, rows);
    for (Index i = 0; i < whole; i += group, panel += step)
      for (Index r = 0; r < std::min(group, whole - i); r += L) hn::Store(hn::LoadU(d, from + i + r), d, panel + r);
    for (Index i = whole; i < rows; ++i) to[i / group * step + q * group + i % group] = from[i * row];
  }
}

// ---- multiplying ----------------------------------------------------------------------------------------------------

/// Rows of A in place or packed, and where their rows of C start: at C itself, or at one row for all (the bias, 0).
template <class T>
struct Group {
  Index rows, depth;
  const T* a;
  Index a_row, a_step;
  const T* start;
  Index start_row;
  T* c;
  Index c_row;
};

/// The last panel if its last vector is cut: by way of a tile that is whole.
template <class T>
HWY_NOINLINE void MultiplyCut(const Group<T>& g, const T* panel, Index column, Index columns) {
  constexpr Index L = lanes<T>;
  const hn::ScalableTag<T> d;
  const Index whole = columns / L, rest = columns % L, vectors = whole + 1, width = vectors * L;
  HWY_ALIGN T tile[most_rows * panel_vectors * L];
  for (Index r = 0; r < g.rows; ++r) {
    const T* from = g.start + r * g.start_row + column;
    T* to = tile + r * width;
    for (Index v = 0; v < whole; ++v) hn::Store(hn::LoadU(d, from + v * L), d, to + v * L);
    hn::Store(LoadPart(d, from + whole * L, rest), d, to + whole * L);
  }
  Multiply(TileProduct<T>{g.depth, g.a, g.a_row, g.a_step, panel, width, tile, width, tile, width}, g.rows, vectors);
  for (Index r = 0; r < g.rows; ++r) {
    const T* from = tile + r * width;
    T* to = g.c + r * g.c_row + column;
    for (Index v = 0; v < whole; ++v) hn::StoreU(hn::Load(d, from + v * L), d, to + v * L);
    StorePart(hn::Load(d, from + whole * L), d, to + whole * L, rest);
  }
}

/// `b_row`: of a slice in place; 0: it is packed.
template <class T>
HWY_INLINE void MultiplyGroup(const Group<T>& g, const T* slice, Index b_row, Index columns) {
  constexpr Index L = lanes<T>;
  const Index vectors = VectorsOf<T>(columns);
  for (Index v = 0; v < vectors;) {
    const Index column = v * L, width = PanelWidth(vectors - v);
    const T* panel = slice + column * (b_row == 0 ? g.depth : 1);
    v += width;
    if (v * L > columns) return MultiplyCut(g, panel, column, columns - column);
    T* c = g.c + column;
    // While this tile is computed, the lines that the next one goes to arrive.
    const T* next = v < vectors ? g.c + v * L : g.c + g.rows * g.c_row;
    for (Index r = 0; r < g.rows; ++r) PrefetchRow(next + r * g.c_row, panel_vectors * L);
    Multiply(TileProduct<T>{g.depth, g.a, g.a_row, g.a_step, panel, b_row == 0 ? width * L : b_row, g.start + column,
                            g.start_row, c, g.c_row},
             g.rows, width);
  }
}

/// True if B's rows are whole vectors, and so close to each other that they are as good as packed: up to half a page the
/// processor looks ahead from row to row, beyond it packing pays.
template <class T>
bool BInPlace(const Product<T>& p) {
  return p.b_column == 1 && p.n % lanes<T> == 0 && p.b_row % lanes<T> == 0 && p.b_row > 0 &&
         p.b_row * static_cast<Index>(sizeof(T)) <= 2048;
}

template <class T>
HWY_INLINE void Large(const Product<T>& p, PackedB<T>* kept) {
  HWY_ALIGN static constexpr T zeros[4 * slice_columns<T>] = {};
  const Index slices = (p.k + slice_depth<T> - 1) / slice_depth<T>, depth = (p.k + slices - 1) / slices;
  const bool in_place = p.a_column == 1;
  // As many rows as half of the first-level cache holds.
  const Index group = depth * most_rows * static_cast<Index>(sizeof(T)) <= 16384 ? most_rows : 8;
  const auto pack = group == 8 ? PackA<8, T> : PackA<most_rows, T>;
  const Index block = in_place ? p.m : packed_rows;
  const Index width = VectorsOf<T>(p.n) * lanes<T>;
  PackedB<T> own;
  PackedB<T>& packed_b = kept != nullptr ? *kept : own;
  const bool ready = packed_b.has_value();
  const bool b_in_place = !ready && BInPlace(p);
  if (!ready && !b_in_place) packed_b.emplace((kept != nullptr ? p.k : depth) * width);
  Scratch<T> packed(in_place ? 0 : packed_rows / group * GroupStep<T>(depth, group));

  for (Index q = 0; q < p.k; q += depth) {
    const Index k = std::min(depth, p.k - q);
    const T* slice = p.b + q * p.b_row;
    if (!b_in_place) {
      T* const to = packed_b->data() + (kept != nullptr ? q * width : 0);
      if (!ready) PackB(slice, p.b_row, p.b_column, k, p.n, to);
      slice = to;
    }
    for (Index i = 0; i < p.m; i += block) {
      const Index rows = std::min(block, p.m - i);
      const T* a = p.a + i * p.a_row + q * p.a_column;
      if (!in_place) pack(a, p.a_row, p.a_column, rows, k, packed.data());
      for (Index r = 0; r < rows; r += group) {
        T* c = p.c + (i + r) * p.c_row;
        Group<T> g{std::min(group, rows - r), k, a + r * p.a_row, p.a_row, 1, c, p.c_row, c, p.c_row};
        if (!in_place) g.a = packed.data() + r / group * GroupStep<T>(k, group), g.a_row = 1, g.a_step = group;
        if (q == 0 && !p.accumulate) g.start = p.bias != nullptr ? p.bias : zeros, g.start_row = 0;
        MultiplyGroup(g, slice, b_in_place ? p.b_row : 0, p.n);
      }
    }
  }
}

HWY_ATTR void LargeF32(const Product<float>& p, PackedB<float>* packed) { Large(p, packed); }
HWY_ATTR void LargeF64(const Product<double>& p, PackedB<double>* packed) { Large(p, packed); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(LargeF32);
HWY_EXPORT(LargeF64);

void gemm_large(const Product<float>& p, PackedB<float>* packed) { HWY_DYNAMIC_DISPATCH(LargeF32)(p, packed); }
void gemm_large(const Product<double>& p, PackedB<double>* packed) { HWY_DYNAMIC_DISPATCH(LargeF64)(p, packed); }

}  // namespace capstan::kernels
#endif
