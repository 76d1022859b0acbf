// Attention, forward: softmax on line (Milakov and Gimelshein 2018; Dao et al. 2022), a panel of queries below its lanes.
//
// A task is a few panels of one head. It walks over blocks of keys; for each panel of queries the scores of a block are
// made in cache, turned into weights against the maximum so far, and multiplied into the output so far. The picture is in
// attention_tiles-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/attention_forward.cpp>
#include <capstan/ops/kernels/attention_parts.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After Highway, which they need.
#include <capstan/ops/kernels/attention_small-inl.h>

#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Panels that share one pass over K and V.
Index PanelsPerTask(Index queries) { return queries <= 512 ? 2 : 4; }

/// The memory of one task.
template <class T>
struct ForwardScratch {
  Index block, d_panel, v_panel;
  bool terms_wanted, factors_wanted;
  Scratch<T> memory;
  T *queries, *outputs, *most, *sums, *zeros, *scores, *keys, *values, *terms, *factors;

  ForwardScratch(const AttentionProblem& p, const AttentionSizes& s, Index panels)
      : block(BlockKeys(s)),
        d_panel(s.width * panel<T>),
        v_panel(s.value_width * panel<T>),
        terms_wanted(p.keep.layout != nullptr || p.bias.layout != nullptr),
        factors_wanted(p.dropout.has_value()),
        memory(panels * (d_panel + v_panel + 2 * panel<T>)+panel<T> +
               block * (panel<T> * (1 + terms_wanted + factors_wanted) + s.width + s.value_width)) {
    T* at = memory.data();
    const auto take = [&](Index count) { return std::exchange(at, at + count); };
    queries = take(panels * d_panel);
    outputs = take(panels * v_panel);
    most = take(panels * panel<T>);
    sums = take(panels * panel<T>);
    zeros = take(panel<T>);
    scores = take(block * panel<T>);
    terms = terms_wanted ? take(block * panel<T>) : nullptr;
    factors = factors_wanted ? take(block * panel<T>) : nullptr;
    keys = take(block * s.width);
    values = take(block * s.value_width);
    std::fill_n(zeros, panel<T>, T{0});
    std::fill_n(outputs, panels * v_panel, T{0});
    std::fill_n(most, panels * panel<T>, -std::numeric_limits<T>::infinity());
    std::fill_n(sums, panels * panel<T>, T{0});
  }
};

/// Scores become weights 2^(s − m), m being the maximum so far; what was summed before is brought to the new m.
template <class T>
HWY_INLINE void Weigh(const MaskedScores<T>& masked, Range keys, T* scores, T* most, T* sums, T* outputs,
                      Index value_width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const V lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  const V before = hn::LoadU(d, most);
  V top = before, other = before;
  const bool plain = !masked.cut && masked.terms == nullptr;
  Index j = keys.begin;
  if (plain) {
    for (; j + 2 <= keys.end; j += 2) {
      top = hn::Max(hn::LoadU(d, scores + j * panel<T>), top);
      other = hn::Max(hn::LoadU(d, scores + (j + 1) * panel<T>), other);
    }
    if (j < keys.end) top = hn::Max(hn::LoadU(d, scores + j * panel<T>), top);
    top = hn::Max(other, top);
  } else {
    for (; j < keys.end; ++j) {
      const V s = masked.At(j);
      hn::StoreU(s, d, scores + j * panel<T>);
      top = hn::Max(s, top);
    }
  }
  // Where nothing has been allowed yet, −∞ − (−∞) must not be met.
  const V shift = hn::IfThenElse(hn::Eq(top, lowest), hn::Zero(d), top);
  V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  for (j = keys.begin; j + 2 <= keys.end; j += 2) {
    T* at = scores + j * panel<T>;
    const V p0 = Exp2(d, hn::Sub(hn::LoadU(d, at), shift));
    const V p1 = Exp2(d, hn::Sub(hn::LoadU(d, at + panel<T>), shift));
    hn::StoreU(p0, d, at);
    hn::StoreU(p1, d, at + panel<T>);
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
  }
  if (j < keys.end) {
    T* at = scores + j * panel<T>;
    const V p0 = Exp2(d, hn::Sub(hn::LoadU(d, at), shift));
    hn::StoreU(p0, d, at);
    sum0 = hn::Add(sum0, p0);
  }
  const V correction = Exp2(d, hn::Sub(before, shift));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, sums), correction, hn::Add(sum0, sum1)), d, sums);
  hn::StoreU(top, d, most);
  // Nothing to correct: the maximum stands, or nothing has been summed yet.
  if (hn::AllTrue(d, hn::Eq(correction, hn::Set(d, T{1}))) || hn::AllTrue(d, hn::Eq(before, lowest))) return;
  for (Index i = 0; i < value_width; ++i) {
    T* at = outputs + i * panel<T>;
    hn::StoreU(hn::Mul(correction, hn::LoadU(d, at)), d, at);
  }
}

/// The weights that dropout keeps, scaled.
template <class T>
HWY_INLINE void Drop(const T* factors, Range keys, T* weights) {
  const hn::ScalableTag<T> d;
  for (Index at = keys.begin * panel<T>; at < keys.end * panel<T>; at += lanes<T>) {
    const auto factor = hn::LoadU(d, factors + at);
    const auto dropped = hn::Eq(factor, hn::Zero(d));
    hn::StoreU(hn::IfThenElse(dropped, hn::Zero(d), hn::Mul(factor, hn::LoadU(d, weights + at))), d, weights + at);
  }
}

/// One panel of queries against one block of keys.
template <class T>
HWY_INLINE void ForwardTile(const AttentionProblem& p, const AttentionSizes& s, const Band& band, Index b, Index h,
                            Index query, Range block, DenseRows<T> keys, DenseRows<T> values, Index at,
                            ForwardScratch<T>& scratch, Ahead<T>& ahead) {
  const VisibleKeys visible = Visible<T>(band, query, s.queries, block);
  if (!visible.any()) return;
  const PairTile pairs{b, h, block.begin, block.count(), query, std::min(panel<T>, s.queries - query), panel<T>};
  if (scratch.terms_wanted && !pair_terms(p, pairs, std::numbers::log2e_v<T>, scratch.terms)) return;
  T* outputs = scratch.outputs + at * scratch.v_panel;
  Scores(visible, keys, s.width, scratch.queries + at * scratch.d_panel, scratch.zeros, scratch.scores);
  ahead.Step();
  for (Index v = 0; v < panel_vectors; ++v) {
    const Range range = visible.of[v];
    if (range.empty()) continue;
    const MaskedScores<T> masked(band, query, s.queries, block, range, v, scratch.scores, scratch.terms);
    const Index lane = v * lanes<T>;
    Weigh(masked, range, scratch.scores + lane, scratch.most + at * panel<T> + lane,
          scratch.sums + at * panel<T> + lane, outputs + lane, s.value_width);
  }
  ahead.Step();
  if (scratch.factors_wanted) {
    dropout_factors(p, pairs, scratch.factors);
    Drop(scratch.factors, visible.all, scratch.scores);
  }
  AddProducts(visible, values, scratch.scores, s.value_width, outputs);
  ahead.Step();
}

/// Outputs and log-sum-exp of a finished panel leave for memory.
template <class T>
HWY_INLINE void FinishPanel(const AttentionSizes& s, Index query, Index at, ForwardScratch<T>& scratch, HeadRows<T> out,
                            HeadStatistic<T> logsumexp) {
  const hn::ScalableTag<T> d;
  const Index count = std::min(panel<T>, s.queries - query);
  T* outputs = scratch.outputs + at * scratch.v_panel;
  T* sums = scratch.sums + at * panel<T>;
  T* most = scratch.most + at * panel<T>;
  for (Index lane = 0; lane < panel<T>; lane += lanes<T>) {
    const auto sum = hn::LoadU(d, sums + lane);
    const auto dead = hn::Eq(sum, hn::Zero(d));
    const auto inverse = hn::Div(hn::Set(d, T{1}), sum);
    const auto logarithm = hn::MulAdd(hn::LoadU(d, most + lane), hn::Set(d, std::numbers::ln2_v<T>), Log(d, sum));
    hn::StoreU(hn::IfThenElse(dead, hn::Set(d, -std::numeric_limits<T>::infinity()), logarithm), d, most + lane);
    for (Index i = 0; i < s.value_width; ++i) {
      T* place = outputs + i * panel<T> + lane;
      hn::StoreU(hn::IfThenElse(dead, hn::Zero(d), hn::Mul(inverse, hn::LoadU(d, place))), d, place);
    }
  }
  for (Index i = 0; i < count; ++i) logsumexp[query + i] = most[i];
  Transpose(outputs, panel<T>, s.value_width, count, T{1}, out.data + query * out.row, out.row);
}

template <class T>
HWY_ATTR void ForwardTask(const AttentionProblem& p, const AttentionSizes& s, const SeenKeys& seen, Index b, Index h,
                          Index query, View out, View logsumexp, Ahead<T>& ahead) {
  const Index panels = std::min(PanelsPerTask(s.queries), (s.queries - query + panel<T> - 1) / panel<T>);
  const Index end = std::min(s.queries, query + panels * panel<T>), key_head = h / s.group;
  const Band band(p, b);
  ForwardScratch<T> scratch(p, s, panels);
  const HeadRows<const T> q(p.q, b, h), k(p.k, b, key_head), v(p.v, b, key_head);
  const T factor = static_cast<T>(p.scale * std::numbers::log2e);
  {
    Scratch<T> copy(q.column == 1 ? 0 : (end - query) * s.width);
    for (Index at = 0; at < panels; ++at) {
      const Index first = query + at * panel<T>, count = std::min(panel<T>, s.queries - first);
      // Read once: no need to part rows that crowd.
      const DenseRows<T> rows = q.column == 1 ? DenseRows<T>{q.data + first * q.row, q.row}
                                              : Dense(q, first, count, s.width, nullptr, copy.data());
      PackPanel(rows, count, s.width, factor, scratch.queries + at * scratch.d_panel);
    }
  }
  const bool* alive = seen.of(b, key_head);
  const Range all = band.keys_of(query, end - 1, {0, s.keys});
  for (Index key = all.begin; key < all.end; key += scratch.block) {
    const Range block{key, std::min(all.end, key + scratch.block)};
    const bool* alive_here = alive == nullptr ? nullptr : alive + key;
    const DenseRows<T> keys = Dense(k, key, block.count(), s.width, alive_here, scratch.keys);
    const DenseRows<T> values = Dense(v, key, block.count(), s.value_width, alive_here, scratch.values);
    for (Index at = 0; at < panels; ++at)
      ForwardTile(p, s, band, b, h, query + at * panel<T>, block, keys, values, at, scratch, ahead);
  }
  const HeadRows<T> to(out, b, h);
  const HeadStatistic<T> to_logsumexp(logsumexp, b, h);
  for (Index at = 0; at < panels; ++at) FinishPanel(s, query + at * panel<T>, at, scratch, to, to_logsumexp);
}

template <class T>
void ForwardOf(const AttentionProblem& p, View out, View logsumexp) {
  const AttentionSizes s(p);
  const Index queries_per_task = PanelsPerTask(s.queries) * panel<T>;
  const Index pieces = (s.queries + queries_per_task - 1) / queries_per_task;
  if (s.batch * s.heads * pieces == 0) return;
  if (IsSmall<T>(p, s))
    return ForEachSmallHead<T>(s, s.heads,
                               [&](auto d, Index b, Index h) { SmallForward(d, p, s, b, h, out, logsumexp); });
  const SeenKeys seen(p);
  // A piece of work is worth some 20 µs.
  const double task = static_cast<double>(queries_per_task) *
                      static_cast<double>(std::min(s.keys, p.high - p.low + 1)) *
                      static_cast<double>(s.width + s.value_width);
  const Index grain = std::max(Index{1}, static_cast<Index>(1e6 / std::max(task, 1e3)));
  const Index run = heads_in_a_row(s, s.batch * s.heads, sizeof(T));
  const Index steps = 3 * TilesOfHead<T>(s);
  parallel_blocks(Region::attention, s.batch * s.heads * pieces, run > 1 ? run * pieces : grain,
                  [&](Index begin, Index end) {
                    for (Index item = begin; item < end;) {
                      const Index head = item / pieces, b = head / s.heads, h = head % s.heads;
                      Ahead<T> ahead(steps);
                      const Index next = head + 1;
                      if (run > 1 && next * pieces < end) {
                        ahead.Add(p.q, next / s.heads, next % s.heads);
                        ahead.Add(p.k, next / s.heads, next % s.heads / s.group);
                        ahead.Add(p.v, next / s.heads, next % s.heads / s.group);
                        ahead.Add(out, next / s.heads, next % s.heads);
                      }
                      // Heads outermost, so that their K and V stay in cache; the last queries, which see most
                      // keys, first.
                      for (const Index stop = std::min(end, next * pieces); item < stop; ++item) {
                        const Index piece = pieces - 1 - item % pieces;
                        ForwardTask<T>(p, s, seen, b, h, piece * queries_per_task, out, logsumexp, ahead);
                      }
                    }
                  });
}

}  // namespace

HWY_ATTR void AttentionForwardF32(const AttentionProblem& p, View out, View logsumexp) {
  ForwardOf<float>(p, out, logsumexp);
}
HWY_ATTR void AttentionForwardF64(const AttentionProblem& p, View out, View logsumexp) {
  ForwardOf<double>(p, out, logsumexp);
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(AttentionForwardF32);
HWY_EXPORT(AttentionForwardF64);

void attention(const AttentionProblem& problem, View out, View logsumexp) {
  if (problem.q.dtype == DType::f32) {
    HWY_DYNAMIC_DISPATCH(AttentionForwardF32)(problem, out, logsumexp);
  } else {
    HWY_DYNAMIC_DISPATCH(AttentionForwardF64)(problem, out, logsumexp);
  }
}

}  // namespace capstan::kernels
#endif
