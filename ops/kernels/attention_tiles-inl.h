// What the attention kernels are made of, for inclusion by SIMD .cpp files: the product of a few rows, 2^x, and tiles of
// scores. Not for: packing (attention_panels-inl.h).
//
// Lanes are queries. A panel is `panel` = 3 vectors of queries; whatever belongs to a query (scores, outputs, the maximum, the
// sum) stands below its lane, so no statistic ever crosses lanes:
//
//                     panel: 3 vectors of queries                        panel
//                   ┌───────┬───────┬───────┐                  ┌───────┬───────┬───────┐
//            D rows │       Qᵀ · scale · log₂e                 │       Pᵀ = 2^(Sᵀ − m) │ keys
//                   └───────┴───────┴───────┘                  └───────┴───────┴───────┘
//        ┌────────┐ ┌───────┬───────┬───────┐   ┌────────────┐ ┌───────┬───────┬───────┐
//   keys │   K    │ │███ Sᵀ │       │       │ 8 │ Vᵀ in place│ │███ Oᵀ │       │       │ Dv rows
//        └────────┘ └───────┴───────┴───────┘   └────────────┘ └───────┴───────┴───────┘
//          depth D    └─ 8 rows × 3 vectors of accumulators       depth: keys
//
// K and V are read in place, an element at a time for all lanes. D is a row or a depth and never a lane here, so any D fits.
// Only dK and dV (Pᵀ dO, dSᵀ Q) put D into lanes, with the queries as depth.
//
// At the edge of a band each vector follows its own range of keys: what is wasted there is a vector, not a panel.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_TILES_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_TILES_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_TILES_INL_H
#endif

#include <capstan/ops/kernels/attention_panels-inl.h>
#include <capstan/ops/kernels/math-inl.h>

#include <algorithm>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Keys of a block; its tile of scores stays in the first-level cache.
inline constexpr Index block_keys = 96;

// ---- 2^x ------------------------------------------------------------------------------------------------------------

/// 2^x for x ≤ 100 or so, to 0.6 ulp: exact at 0; 0 for −∞ and where 2^x is subnormal; NaN for NaN.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Exp2(D d, hn::Vec<D> x) {
  // 2^x = 2^n 2^r: adding the magic number rounds x to n, in the low bits of the sum. 2^r = 1 + r q(r) on [−½, ½] with q by
  // interpolation at Chebyshev's nodes (relative error 5e-9, 8e-18).
  constexpr bool narrow = sizeof(T) == 4;
  constexpr T magic = static_cast<T>(narrow ? 12582912.0 : 6755399441055744.0);  // 1.5 · 2^mantissa
  const hn::RebindToSigned<D> di;
  const auto lowest = hn::Set(d, static_cast<T>(narrow ? -126.0 : -1022.0));
  const auto clamped = hn::Max(lowest, x);  // in this order NaN stays
  const auto shifted = hn::Add(clamped, hn::Set(d, magic));
  const auto r = hn::Sub(clamped, hn::Sub(shifted, hn::Set(d, magic)));
  hn::Vec<D> q;
  if constexpr (narrow) {
    constexpr float c[] = {0.6931471880262288F,  0.24022650760568126F,  0.05550357114219078F,
                           0.009618082557277852F, 0.0013390863364671234F, 0.0001545316294512069F};
    q = Polynomial(d, r, c);
  } else {
    constexpr double c[] = {0.6931471805599453,    0.24022650695910097,   0.0555041086648216,    0.009618129107606888,
                            0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06,
                            1.0178062445845774e-07, 7.072585949269223e-09, 4.4549605981865186e-10};
    q = Polynomial(d, r, c);
  }
  const auto y = hn::MulAdd(r, q, hn::Set(d, T{1}));
  const auto exponent = hn::ShiftLeft<narrow ? 23 : 52>(hn::BitCast(di, shifted));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, y), exponent));
  return hn::IfThenElse(hn::Lt(x, lowest), hn::Zero(d), scaled);
}

// ---- tiles of scores ------------------------------------------------------------------------------------------------

/// Which keys of a block the vectors of a panel may see; positions are relative to the block.
struct VisibleKeys {
  Range of[panel_vectors];
  Range all;   // from the first to the last one
  bool equal;  // every vector sees all of them
  bool any() const { return !all.empty(); }
};

template <class T>
HWY_INLINE VisibleKeys Visible(const Band& band, Index query, Index queries, Range block) {
  VisibleKeys keys;
  keys.all = {block.count(), 0};
  for (Index v = 0; v < panel_vectors; ++v) {
    const Index first = query + v * lanes<T>, last = std::min(first + lanes<T>, queries) - 1;
    Range& range = keys.of[v];
    if (first <= last) range = band.keys_of(first, last, block);
    if (range.empty()) {
      range = {};
      continue;
    }
    range = {range.begin - block.begin, range.end - block.begin};
    keys.all = {std::min(keys.all.begin, range.begin), std::max(keys.all.end, range.end)};
  }
  keys.equal = true;
  for (const Range& range : keys.of) keys.equal = keys.equal && range == keys.all;
  return keys;
}

/// f(range of keys, first vector, vectors) for the stretches of keys that the same neighbouring vectors see.
template <class F>
HWY_INLINE void ForEachStretch(const VisibleKeys& keys, const F& f) {
  if (keys.equal) return f(keys.all, Index{0}, panel_vectors);
  Index cuts[2 * panel_vectors];
  for (Index v = 0; v < panel_vectors; ++v) {
    cuts[2 * v] = keys.of[v].begin;
    cuts[2 * v + 1] = keys.of[v].end;
  }
  std::sort(cuts, cuts + 2 * panel_vectors);
  for (Index i = 0; i + 1 < 2 * panel_vectors; ++i) {
    const Range stretch{cuts[i], cuts[i + 1]};
    if (stretch.empty()) continue;
    Index first = panel_vectors, last = -1;
    for (Index v = 0; v < panel_vectors; ++v)
      if (keys.of[v].begin <= stretch.begin && keys.of[v].end >= stretch.end) {
        first = std::min(first, v);
        last = v;
      }
    // Bounds grow with the vector, so what lies between two that see the stretch sees it too.
    if (first <= last) f(stretch, first, last - first + 1);
  }
}

/// The products of a tile, sᵀ [keys, panel] = start + rows · panelᵀ, where a vector of queries sees the key.
template <class T>
HWY_INLINE void Scores(const VisibleKeys& keys, DenseRows<T> rows, Index width, const T* packed, const T* start, T* s) {
  ForEachStretch(keys, [&](Range range, Index vector, Index vectors) {
    const Index lane = vector * lanes<T>;
    const TileProduct<T> product{width,    rows.data + range.begin * rows.row, rows.row, 1,
                                 packed + lane, panel<T>, start + lane, 0, s + range.begin * panel<T> + lane, panel<T>};
    Multiply(product, range.count(), vectors);
  });
}

/// C [rows, panel] += Σ_keys a(row, key) · s(key, lane), each vector over its own keys; a(r, j) lies at r + j · a.row.
template <class T>
HWY_INLINE void AddProducts(const VisibleKeys& keys, DenseRows<T> a, const T* s, Index rows, T* c) {
  ForEachStretch(keys, [&](Range range, Index vector, Index vectors) {
    const Index lane = vector * lanes<T>;
    const TileProduct<T> product{range.count(), a.data + range.begin * a.row, 1, a.row,
                                 s + range.begin * panel<T> + lane, panel<T>, c + lane, panel<T>, c + lane, panel<T>};
    Multiply(product, rows, vectors);
  });
}

/// The scores of one vector of queries as they are after masks: inside the band, with the terms of pairs.
template <class T>
struct MaskedScores {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  const T* s;
  const T* terms;  // or null
  bool cut;        // some pair is outside the band
  T first, last;   // lanes that may see key 0 of the block; both move by 1 a key
  V lane;

  MaskedScores(const Band& band, Index query, Index queries, Range block, Range keys, Index v, const T* s_,
               const T* terms_)
      : s(s_ + v * lanes<T>), terms(terms_ == nullptr ? nullptr : terms_ + v * lanes<T>) {
    const Index begin = query + v * lanes<T>, end = std::min(begin + lanes<T>, queries);
    cut = band.cuts(begin, end - 1, {keys.begin + block.begin, keys.end + block.begin});
    // Far bounds are brought near, where a T holds every integer.
    const Index near = 4096;
    first = static_cast<T>(std::clamp(block.begin - band.high - begin, -near, near));
    last = static_cast<T>(std::clamp(block.begin - band.low - begin, -near, near));
    lane = hn::Iota(D(), 0);
  }
  HWY_INLINE V At(Index j) const {
    const D d;
    const V lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
    V x = hn::LoadU(d, s + j * panel<T>);
    if (terms != nullptr) {
      const V term = hn::LoadU(d, terms + j * panel<T>);
      // A selection: what is forbidden may be NaN.
      x = hn::IfThenElse(hn::Eq(term, lowest), lowest, hn::Add(x, term));
    }
    if (cut) {
      const T at = static_cast<T>(j);
      const auto inside = hn::And(hn::Ge(lane, hn::Set(d, first + at)), hn::Le(lane, hn::Set(d, last + at)));
      x = hn::IfThenElse(inside, x, lowest);
    }
    return x;
  }
};

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
