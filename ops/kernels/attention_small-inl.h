// Attention of one vector of queries and few keys: the tiles' products (attention_tiles-inl.h) on arrays of the stack,
// nothing allocated or cut into blocks. For inclusion by SIMD .cpp files. Not for: keep tensors, biases, dropout.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_SMALL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_SMALL_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_SMALL_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_SMALL_INL_H
#endif

#include <capstan/ops/kernels/attention_tiles-inl.h>
#include <capstan/ops/kernels/parallel.h>

#include <limits>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr Index small_keys = 16, small_width = 64;

template <class T>
bool IsSmall(const AttentionProblem& p, const AttentionSizes& s) {
  return s.queries <= lanes<T> && s.keys <= small_keys && std::max(s.width, s.value_width) <= small_width &&
         p.keep.layout == nullptr && p.bias.layout == nullptr && !p.dropout;
}

/// f(tag of the vectors, batch, head) for all of them; a piece of work is worth some 20 µs. Few queries take vectors of half the
/// length of AVX-512's: narrow rows then fill them too.
template <class T, class F>
void ForEachSmallHead(const AttentionSizes& s, Index heads, const F& f) {
  using D = hn::ScalableTag<T>;
  const auto all = [&](auto d) {
    parallel_blocks(Region::attention, s.batch * heads, 32, [&](Index begin, Index end) {
      for (Index item = begin; item < end; ++item) f(d, item / heads, item % heads);
    });
  };
  if constexpr (lanes<T> * sizeof(T) == 64) {
    if (s.queries <= lanes<T> / 2) return all(hn::Half<D>());
  }
  all(D());
}

/// One head, a vector of queries in the lanes. What is called twice is not inlined: such a head costs less than the fetching
/// of its code.
template <class D>
struct SmallHead {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  static constexpr Index L = static_cast<Index>(hn::MaxLanes(D()));

  Index queries;
  Range keys;     // that some query sees
  V first, last;  // keys that the query in a lane sees; none in lanes beyond the last query
  HWY_ALIGN T zeros[4 * L] = {};

  HWY_INLINE SmallHead(const AttentionProblem& p, const AttentionSizes& s, Index b) : queries(s.queries) {
    const D d;
    const Band band(p, b);
    keys = queries == 0 ? Range{} : band.keys_of(0, queries - 1, {0, s.keys});
    // Bounds beyond all lanes and keys are as good as far ones.
    const auto bound = [](Index x) { return static_cast<T>(std::clamp(x, -L - small_keys, L + small_keys)); };
    const V lane = hn::Iota(d, 0);
    first = hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(queries)), hn::Add(lane, hn::Set(d, bound(band.low))),
                           hn::Set(d, std::numeric_limits<T>::infinity()));
    last = hn::Add(lane, hn::Set(d, bound(band.high)));
  }

  /// to [width, lanes] = factor · rowsᵀ, lanes beyond the last query 0.
  HWY_NOINLINE void Pack(DenseRows<T> rows, Index width, T factor, T* to) const {
    if (queries < L)
      for (Index j = 0; j < width; ++j) hn::Store(hn::Zero(D()), D(), to + j * L);
    Transpose(rows.data, rows.row, queries, width, factor, to, L);
  }
  /// to [keys, lanes] = rows · packed
  void Scores(HeadRows<const T> rows, Index width, const T* packed, T* to) const {
    Multiply(
        TileProduct<T>{width, rows.data + keys.begin * rows.row, rows.row, rows.column, packed, L, zeros, 0, to, L},
        keys.count(), 1, D());
  }
  /// to [width, lanes] = Σ_keys row(key) · s(key)
  void Mix(HeadRows<const T> rows, Index width, const T* s, T* to) const {
    Multiply(
        TileProduct<T>{keys.count(), rows.data + keys.begin * rows.row, rows.column, rows.row, s, L, zeros, 0, to, L},
        width, 1, D());
  }
  /// Lanes of the queries that see the n-th of the keys.
  HWY_INLINE hn::Mask<D> See(Index n) const {
    const V key = hn::Set(D(), static_cast<T>(keys.begin + n));
    return hn::And(hn::Ge(key, first), hn::Le(key, last));
  }
  /// Scores [keys, lanes] become weights 2^(s − top), top being their maximum, or −∞ where nothing is seen; returns their
  /// sum.
  HWY_INLINE V Weigh(T* s, V& top) const {
    const D d;
    const V lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
    top = lowest;
    for (Index n = 0; n < keys.count(); ++n) {
      // A selection: what is not seen may be NaN.
      const V x = hn::IfThenElse(See(n), hn::Load(d, s + n * L), lowest);
      hn::Store(x, d, s + n * L);
      top = hn::Max(x, top);
    }
    // −∞ − (−∞) must not be met.
    const V shift = hn::IfThenElse(hn::Eq(top, lowest), hn::Zero(d), top);
    V sum = hn::Zero(d);
    for (Index n = 0; n < keys.count(); ++n) {
      const V weight = Exp2(d, hn::Sub(hn::Load(d, s + n * L), shift));
      hn::Store(weight, d, s + n * L);
      sum = hn::Add(sum, weight);
    }
    return sum;
  }
};

template <class D, class T = hn::TFromD<D>>
HWY_ATTR void SmallForward(D d, const AttentionProblem& p, const AttentionSizes& s, Index b, Index h, View out,
                           View logsumexp) {
  constexpr Index L = SmallHead<D>::L;
  const SmallHead<D> head(p, s, b);
  const Index key_head = h / s.group;
  HWY_ALIGN T rows[L * small_width], q[small_width * L], weights[small_keys * L], outputs[small_width * L],
      statistic[L];
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto top = lowest, sum = hn::Zero(d);
  if (head.keys.empty()) {
    std::fill_n(outputs, s.value_width * L, T{0});
  } else {
    head.Pack(Dense(HeadRows<const T>(p.q, b, h), 0, s.queries, s.width, nullptr, rows), s.width,
              static_cast<T>(p.scale * std::numbers::log2e), q);
    head.Scores(HeadRows<const T>(p.k, b, key_head), s.width, q, weights);
    sum = head.Weigh(weights, top);
    head.Mix(HeadRows<const T>(p.v, b, key_head), s.value_width, weights, outputs);
  }
  const auto dead = hn::Eq(sum, hn::Zero(d));
  const auto inverse = hn::Div(hn::Set(d, T{1}), sum);
  for (Index j = 0; j < s.value_width; ++j) {
    const auto x = hn::Mul(inverse, hn::Load(d, outputs + j * L));
    hn::Store(hn::IfThenElse(dead, hn::Zero(d), x), d, outputs + j * L);
  }
  const auto logarithm = hn::MulAdd(top, hn::Set(d, std::numbers::ln2_v<T>), Log(d, sum));
  hn::Store(hn::IfThenElse(dead, lowest, logarithm), d, statistic);
  const HeadStatistic<T> to_logsumexp(logsumexp, b, h);
  for (Index i = 0; i < s.queries; ++i) to_logsumexp[i] = statistic[i];
  const HeadRows<T> to(out, b, h);
  Transpose(outputs, L, s.value_width, s.queries, T{1}, to.data, to.row);
}

/// Where key gradients gather: rows [keys, columns] of the result itself, or of scratch with padded columns.
template <class T>
struct KeyGradients {
  T* data;
  Index row;
};

/// c [keys, columns] (+)= Σ_queries s(key, query) · rows(query, ·); rows and c have padded columns.
template <class D, class T = hn::TFromD<D>>
HWY_NOINLINE void AddSmallKeyGradients(const SmallHead<D>& head, const T* s, DenseRows<T> rows, Index columns, bool add,
                                       KeyGradients<T> c) {
  constexpr Index L = SmallHead<D>::L;
  const Index vectors = Padded<T>(columns, L) / L;
  for (Index v = 0; v < vectors; v += 4) {
    T* to = c.data + v * L;
    Multiply(TileProduct<T>{head.queries, s, L, 1, rows.data + v * L, rows.row, add ? to : head.zeros, add ? c.row : 0,
                            to, c.row},
             head.keys.count(), std::min(Index{4}, vectors - v), D());
  }
}

/// x = c, 0 for keys that no query sees.
template <class D, class T = hn::TFromD<D>>
HWY_NOINLINE void StoreSmallKeyGradients(D d, HeadRows<T> x, Index all, Range keys, Index columns, const T* c) {
  constexpr Index L = SmallHead<D>::L;
  for (Index j = 0; j < all; ++j) {
    T* to = x.data + j * x.row;
    const bool seen = j >= keys.begin && j < keys.end;
    const T* from = c + (j - keys.begin) * Padded<T>(columns, L);
    for (Index i = 0; i < columns; i += L) {
      const auto value = seen ? hn::LoadU(d, from + i) : hn::Zero(d);
      i + L <= columns ? hn::StoreU(value, d, to + i) : StorePart(value, d, to + i, columns - i);
    }
  }
}

/// The rows of a head with padded columns: where they lie if that will do, else a copy, 0 for queries that are not alive.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE DenseRows<T> SmallRows(D d, HeadRows<const T> x, HeadStatistic<const T> logsumexp, bool all_alive,
                                  Index queries, Index columns, T* copy) {
  const Index padded = Padded<T>(columns, SmallHead<D>::L);
  if (all_alive && x.column == 1 && columns == padded) return {x.data, x.row};
  for (Index i = 0; i < queries; ++i)
    CopyRow(x, i, columns, padded, logsumexp[i] != -std::numeric_limits<T>::infinity(), copy + i * padded, d);
  return {copy, padded};
}

/// Scores [keys, lanes] become weights P, and dP [keys, lanes] become factor · dS.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void SmallScoreGradients(D d, const SmallHead<D>& head, T factor, T* weights, T* gradients) {
  constexpr Index L = SmallHead<D>::L;
  const Index count = head.keys.count();
  auto top = hn::Zero(d), delta = hn::Zero(d);
  const auto sum = head.Weigh(weights, top);
  const auto inverse = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T{1}), sum));
  for (Index n = 0; n < count; ++n) {
    const auto weight = hn::Mul(inverse, hn::Load(d, weights + n * L));
    // Selections: what is not seen may be NaN.
    const auto gradient = hn::IfThenElseZero(head.See(n), hn::Load(d, gradients + n * L));
    hn::Store(weight, d, weights + n * L);
    hn::Store(gradient, d, gradients + n * L);
    delta = hn::MulAdd(weight, gradient, delta);
  }
  const auto f = hn::Set(d, factor);
  for (Index n = 0; n < count; ++n) {
    T* at = gradients + n * L;
    hn::Store(hn::Mul(hn::Mul(f, hn::Load(d, weights + n * L)), hn::Sub(hn::Load(d, at), delta)), d, at);
  }
}

/// The formulas are attention_backward.cpp's. All keys are at hand, so that the weights are made as in forward, and
/// delta = Σ_keys P ⊙ dP: with a weight of 1 its dS is exactly 0.
template <class D, class T = hn::TFromD<D>>
HWY_ATTR void SmallBackward(D d, const BackwardProblem& b, Index batch, Index key_head) {
  constexpr Index L = SmallHead<D>::L;
  const AttentionSizes& s = b.s;
  const SmallHead<D> head(b.p, s, batch);
  const HeadRows<const T> k(b.p.k, batch, key_head), v(b.p.v, batch, key_head);
  HWY_ALIGN T q_copy[L * small_width], dout_copy[L * small_width], q[small_width * L], dout[small_width * L],
      weights[small_keys * L], gradients[small_keys * L], dq[small_width * L], dk_scratch[small_keys * small_width],
      dv_scratch[small_keys * small_width];
  // Straight to the result where every key is seen and rows are whole vectors.
  const bool all_seen = head.keys == Range{0, s.keys};
  const auto place = [&](const View& x, Index columns, T* scratch) -> KeyGradients<T> {
    const Index padded = Padded<T>(columns, L);
    if (x.layout == nullptr || !all_seen || columns != padded) return {scratch, padded};
    const HeadRows<T> rows(x, batch, key_head);
    return {rows.data, rows.row};
  };
  const KeyGradients<T> dk = place(b.dk, s.width, dk_scratch), dv = place(b.dv, s.value_width, dv_scratch);
  for (Index member = 0; member < s.group; ++member) {
    const Index h = key_head * s.group + member;
    const HeadStatistic<const T> logsumexp(b.logsumexp, batch, h);
    bool all_alive = true;
    for (Index i = 0; i < s.queries; ++i) all_alive &= logsumexp[i] != -std::numeric_limits<T>::infinity();
    if (head.keys.empty()) {
      std::fill_n(dq, s.width * L, T{0});
    } else {
      // Queries without keys are taken as zeros, and so are their cotangents.
      const DenseRows<T> q_rows =
          SmallRows(d, HeadRows<const T>(b.p.q, batch, h), logsumexp, all_alive, s.queries, s.width, q_copy);
      const DenseRows<T> dout_rows =
          SmallRows(d, HeadRows<const T>(b.dout, batch, h), logsumexp, all_alive, s.queries, s.value_width, dout_copy);
      head.Pack(q_rows, s.width, static_cast<T>(b.p.scale * std::numbers::log2e), q);
      head.Pack(dout_rows, s.value_width, T{1}, dout);
      head.Scores(k, s.width, q, weights);
      head.Scores(v, s.value_width, dout, gradients);
      SmallScoreGradients(d, head, static_cast<T>(b.p.scale), weights, gradients);
      if (b.dv.layout != nullptr) AddSmallKeyGradients(head, weights, dout_rows, s.value_width, member > 0, dv);
      if (b.dk.layout != nullptr) AddSmallKeyGradients(head, gradients, q_rows, s.width, member > 0, dk);
      if (b.dq.layout != nullptr) head.Mix(k, s.width, gradients, dq);
    }
    if (b.dq.layout == nullptr) continue;
    const HeadRows<T> to(b.dq, batch, h);
    Transpose(dq, L, s.width, s.queries, T{1}, to.data, to.row);
    if (!all_alive) clear_dead_rows(b.logsumexp, batch, h, 0, s.queries, s.width, to);
  }
  if (b.dk.layout != nullptr && dk.data == dk_scratch)
    StoreSmallKeyGradients(d, HeadRows<T>(b.dk, batch, key_head), s.keys, head.keys, s.width, dk_scratch);
  if (b.dv.layout != nullptr && dv.data == dv_scratch)
    StoreSmallKeyGradients(d, HeadRows<T>(b.dv, batch, key_head), s.keys, head.keys, s.value_width, dv_scratch);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
