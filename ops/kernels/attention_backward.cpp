// Attention, backward: the weights again from the log-sum-exp, and five products a tile (Dao et al. 2022, algorithm 4).
//
//   Pᵀ  = 2^(K Qᵀ − lse)            dSᵀ = Pᵀ ⊙ (V dOᵀ − delta),  delta = Σ_d dO ⊙ O
//   dV += Pᵀ dO     dK += dSᵀ Q     dQᵀ += Kᵀ dSᵀ                (scale at the end)
//
// The accumulators of dP start at −delta, which makes that subtraction free; those of the scores start at 0, since their
// sums must be the forward's to the bit (starting at −lse, each step would round at the size of lse: with scores of 2500 an
// f32 weight is off by 1.5e-3, and so by 2e-4).
//
// A task is one head of keys and a chunk of its blocks of keys; it walks over the query heads of the group, its blocks, and
// the panels that see them. The number of chunks depends on the shape alone. Each has dQ's of its own, which are summed in
// order: no atomics, the same bytes for any number of threads. The picture is in attention_tiles-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/attention_backward.cpp>
#include <capstan/ops/kernels/attention_parts.h>
#include <capstan/ops/kernels/copy.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After Highway, which they need.
#include <capstan/ops/kernels/attention_packed_head-inl.h>
#include <capstan/ops/kernels/attention_small-inl.h>

#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of dK and dV whose ranges of queries are cut together at the edge of a band: one or two tiles.
template <class T>
constexpr Index GradientRows(Index vectors) {
  const Index rows = tile_rows<T>(std::min(Index{4}, vectors));
  return rows < 12 ? 2 * rows : rows;
}

/// The memory of one task that does not grow with T.
template <class T>
struct BackwardTiles {
  Index block;
  Scratch<T> memory;
  T *weights, *gradients, *keys, *values, *dk, *dv, *terms, *factors, *zeros;
  BackwardTiles(const AttentionProblem& p, const AttentionSizes& s)
      : block(BlockKeys(s)),
        memory(block * (4 * panel<T> + s.width + s.value_width + Padded<T>(s.width) + Padded<T>(s.value_width)) +
               panel<T>) {
    T* at = memory.data();
    const auto take = [&](Index count) { return std::exchange(at, at + count); };
    weights = take(block * panel<T>);
    gradients = take(block * panel<T>);
    terms = take(block * panel<T>);
    factors = take(block * panel<T>);
    zeros = take(panel<T>);
    dk = take(block * Padded<T>(s.width));
    dv = take(block * Padded<T>(s.value_width));
    keys = take(block * s.width);
    values = take(block * s.value_width);
    if (p.keep.layout == nullptr && p.bias.layout == nullptr) terms = nullptr;
    if (!p.dropout) factors = nullptr;
    std::fill_n(zeros, panel<T>, T{0});
  }
};

/// Products become weights Pᵀ (those that dropout keeps, scaled) and gradients of scores dSᵀ; 0 where a vector of queries
/// does not see a key of the tile.
template <class T>
HWY_INLINE void Differentiate(const MaskedScores<T>& masked, Range keys, Range all, const T* minus_logsumexp,
                              const T* minus_delta, const T* factors, T* weights, T* gradients) {
  const hn::ScalableTag<T> d;
  const auto shift = hn::LoadU(d, minus_logsumexp);
  const auto zero = hn::Zero(d);
  for (Index j = all.begin; j < all.end; ++j) {
    T* p_at = weights + j * panel<T>;
    T* ds_at = gradients + j * panel<T>;
    if (j < keys.begin || j >= keys.end) {
      hn::StoreU(zero, d, p_at);
      hn::StoreU(zero, d, ds_at);
      continue;
    }
    const auto p = Exp2(d, hn::Add(masked.At(j), shift));
    auto dp = hn::LoadU(d, ds_at);
    if (factors != nullptr) {
      const auto factor = hn::LoadU(d, factors + j * panel<T>);
      const auto dropped = hn::Eq(factor, zero);
      dp = hn::Add(hn::IfThenElse(dropped, zero, hn::Mul(dp, factor)), hn::LoadU(d, minus_delta));
      hn::StoreU(hn::Mul(p, dp), d, ds_at);
      hn::StoreU(hn::Mul(p, factor), d, p_at);
    } else {
      hn::StoreU(hn::Mul(p, dp), d, ds_at);
      hn::StoreU(p, d, p_at);
    }
  }
}

/// c [keys, columns] += Σ_queries s(key, query) · rows(query, ·), each group of keys over the queries that see it.
template <class T>
HWY_INLINE void AddKeyGradients(const Band& band, bool edge, Range block, Range keys, Index query, Index count,
                                const T* s, DenseRows<T> rows, Index columns, T* c) {
  if (columns == 0) return;
  const Index vectors = Padded<T>(columns) / lanes<T>, step = edge ? GradientRows<T>(vectors) : keys.count();
  for (Index j = keys.begin; j < keys.end; j += step) {
    const Index group = std::min(step, keys.end - j);
    Range queries{query, query + count};
    if (edge) queries = band.queries_of(block.begin + j, block.begin + j + group - 1, queries);
    if (queries.empty()) continue;
    for (Index v = 0; v < vectors; v += 4) {
      T* to = c + j * Padded<T>(columns) + v * lanes<T>;
      const TileProduct<T> product{queries.count(),
                                   s + j * panel<T> + queries.begin - query,
                                   panel<T>,
                                   1,
                                   rows.data + queries.begin * rows.row + v * lanes<T>,
                                   rows.row,
                                   to,
                                   Padded<T>(columns),
                                   to,
                                   Padded<T>(columns)};
      Multiply(product, group, std::min(Index{4}, vectors - v));
    }
  }
}

/// One panel of queries against one block of keys.
template <class T>
HWY_INLINE void BackwardTile(const BackwardProblem& b, const Band& band, const PackedHead<T>& head, Index batch,
                             Index h, Index query, Range block, DenseRows<T> keys, DenseRows<T> values, T* dq,
                             BackwardTiles<T>& t, Ahead<T>& ahead) {
  const AttentionSizes& s = b.s;
  const VisibleKeys visible = Visible<T>(band, query, s.queries, block);
  if (!visible.any()) return;
  const Index count = std::min(panel<T>, s.queries - query);
  const PairTile pairs{batch, h, block.begin, block.count(), query, count, panel<T>};
  if (t.terms != nullptr && !pair_terms(b.p, pairs, std::numbers::log2e_v<T>, t.terms)) return;
  if (t.factors != nullptr) dropout_factors(b.p, pairs, t.factors);
  const T* minus_delta = head.minus_delta + query;
  Scores(visible, keys, s.width, head.q + query * s.width, t.zeros, t.weights);
  ahead.Step();
  Scores(visible, values, s.value_width, head.dout + query * s.value_width,
         t.factors == nullptr ? minus_delta : t.zeros, t.gradients);
  for (Index v = 0; v < panel_vectors; ++v) {
    const Index lane = v * lanes<T>;
    const Range range = visible.of[v];
    // A vector without keys has no last query to ask the band about.
    if (range.empty()) {
      for (Index j = visible.all.begin; j < visible.all.end; ++j) {
        std::fill_n(t.weights + j * panel<T> + lane, lanes<T>, T{0});
        std::fill_n(t.gradients + j * panel<T> + lane, lanes<T>, T{0});
      }
      continue;
    }
    const MaskedScores<T> masked(band, query, s.queries, block, range, v, t.weights, t.terms);
    Differentiate(masked, range, visible.all, head.minus_logsumexp + query + lane, minus_delta + lane,
                  t.factors == nullptr ? nullptr : t.factors + lane, t.weights + lane, t.gradients + lane);
  }
  if (head.dead)
    for (Index i = 0; i < count; ++i)
      for (Index j = visible.all.begin; j < visible.all.end && !head.alive[query + i]; ++j)
        t.weights[j * panel<T> + i] = t.gradients[j * panel<T> + i] = T{0};
  if (b.dbias.layout != nullptr) {
    T* to = b.dbias.data<T>() + ((batch * s.heads + h) * s.queries + query) * s.keys + block.begin;
    for (Index i = 0; i < count; ++i)
      for (Index j = visible.all.begin; j < visible.all.end; ++j) to[i * s.keys + j] = t.gradients[j * panel<T> + i];
  }
  const bool edge = !visible.equal;
  ahead.Step();
  if (b.dv.layout != nullptr)
    AddKeyGradients(band, edge, block, visible.all, query, count, t.weights, head.dout_rows, s.value_width, t.dv);
  ahead.Step();
  if (b.dk.layout != nullptr)
    AddKeyGradients(band, edge, block, visible.all, query, count, t.gradients, head.q_rows, s.width, t.dk);
  ahead.Step();
  if (b.dq.layout != nullptr) AddProducts(visible, keys, t.gradients, s.width, dq);
}

/// x (+)= factor · c for a block of keys; exactly 0 for those that are not alive (null: all are).
template <class T>
void StoreKeyGradients(HeadRows<T> x, Range block, const bool* alive, Index columns, T factor, bool add, const T* c) {
  for (Index j = 0; j < block.count(); ++j) {
    const T* from = c + j * Padded<T>(columns);
    T* to = x.data + (block.begin + j) * x.row;
    if (alive != nullptr && !alive[block.begin + j]) {
      std::fill_n(to, columns, T{0});
    } else if (add) {
      for (Index d = 0; d < columns; ++d) to[d] += factor * from[d];
    } else {
      for (Index d = 0; d < columns; ++d) to[d] = factor * from[d];
    }
  }
}

/// dq = scale · Σ_chunks parts, one panel after the other; what the first part holds is overwritten.
template <class T>
void StoreQueryGradients(const BackwardProblem& b, Index batch, Index h, Index first_panel, Index last_panel, T* parts,
                         Index part) {
  const HeadRows<T> to(b.dq, batch, h);
  const Index size = b.s.width * panel<T>;
  for (Index at = first_panel; at < last_panel; ++at) {
    T* sum = parts + at * size;
    for (Index chunk = 1; chunk < b.chunks; ++chunk)
      for (Index i = 0; i < size; ++i) sum[i] += sum[chunk * part + i];
    const Index query = at * panel<T>, count = std::min(panel<T>, b.s.queries - query);
    Transpose(sum, panel<T>, b.s.width, count, static_cast<T>(b.p.scale), to.data + query * to.row, to.row);
    clear_dead_rows(b.logsumexp, batch, h, query, count, b.s.width, to);
  }
}

template <class T>
HWY_ATTR void BackwardTask(const BackwardProblem& b, Index batch, Index key_head, Index chunk, T* dq_of_group,
                           Index dq_head, Ahead<T>& ahead) {
  const AttentionSizes& s = b.s;
  const Band band(b.p, batch);
  PackedHead<T> head(b, batch, key_head);
  BackwardTiles<T> tiles(b.p, s);
  const HeadRows<const T> k(b.p.k, batch, key_head), v(b.p.v, batch, key_head);
  const bool* alive = b.seen.of(batch, key_head);
  for (Index member = 0; member < s.group; ++member) {
    const Index h = key_head * s.group + member;
    T* dq = dq_of_group + (b.chunks == 1 ? 0 : member * dq_head);
    head.Pack(b, batch, h);
    std::fill_n(dq, head.panels * panel<T> * s.width, T{0});
    // Chunks take turns, so that each has its share of the keys that many queries see.
    for (Index key = chunk * tiles.block; key < s.keys; key += b.chunks * tiles.block) {
      const Range block{key, std::min(s.keys, key + tiles.block)};
      std::fill_n(tiles.dk, block.count() * Padded<T>(s.width), T{0});
      std::fill_n(tiles.dv, block.count() * Padded<T>(s.value_width), T{0});
      // Keys that no query sees are not even read, unless a keep tensor hides them from the others too.
      const Range read = s.queries == 0 ? Range{} : band.keys_of(0, s.queries - 1, block);
      if (!read.empty()) {
        const bool* alive_here = alive == nullptr ? nullptr : alive + read.begin;
        const Index skipped = read.begin - block.begin;
        DenseRows<T> keys = Dense(k, read.begin, read.count(), s.width, alive_here, tiles.keys + skipped * s.width);
        DenseRows<T> values =
            Dense(v, read.begin, read.count(), s.value_width, alive_here, tiles.values + skipped * s.value_width);
        keys.data -= skipped * keys.row;
        values.data -= skipped * values.row;
        const Range queries = band.queries_of(read.begin, read.end - 1, {0, s.queries});
        for (Index at = queries.begin / panel<T>; at * panel<T> < queries.end; ++at)
          BackwardTile(b, band, head, batch, h, at * panel<T>, block, keys, values, dq + at * panel<T> * s.width, tiles,
                       ahead);
      }
      if (b.dk.layout != nullptr)
        StoreKeyGradients(HeadRows<T>(b.dk, batch, key_head), block, alive, s.width, static_cast<T>(b.p.scale),
                          member > 0, tiles.dk);
      if (b.dv.layout != nullptr)
        StoreKeyGradients(HeadRows<T>(b.dv, batch, key_head), block, alive, s.value_width, T{1}, member > 0, tiles.dv);
    }
    if (b.chunks == 1 && b.dq.layout != nullptr) StoreQueryGradients(b, batch, h, 0, head.panels, dq, 0);
  }
}

/// What a head of keys and its first head of queries will touch.
template <class T>
void AddNextHead(const BackwardProblem& b, Index batch, Index key_head, Ahead<T>& ahead) {
  const Index h = key_head * b.s.group;
  for (const ConstView& x : {b.p.q, b.dout, b.out}) ahead.Add(x, batch, h);
  for (const ConstView& x : {b.p.k, b.p.v}) ahead.Add(x, batch, key_head);
  ahead.Add(b.dq, batch, h);
  for (const View& x : {b.dk, b.dv}) ahead.Add(x, batch, key_head);
}

template <class T>
void BackwardOf(BackwardProblem b) {
  const AttentionSizes& s = b.s;
  const Index key_heads = s.batch * s.key_heads, blocks = (s.keys + BlockKeys(s) - 1) / BlockKeys(s);
  if (b.dbias.layout != nullptr) std::fill_n(b.dbias.data<T>(), b.dbias.elements(), T{0});
  if (s.batch * s.heads == 0) {
    for (const View& x : {b.dk, b.dv})
      if (x.layout != nullptr) fill(x, 0);
    return;
  }
  if (b.dbias.layout == nullptr && IsSmall<T>(b.p, s))
    return ForEachSmallHead<T>(s, s.key_heads, [&](auto d, Index batch, Index h) { SmallBackward(d, b, batch, h); });
  b.chunks = std::clamp(blocks, Index{1}, key_heads >= 8 ? Index{1} : key_heads >= 4 ? Index{2} : Index{4});
  const Index panels = (s.queries + panel<T> - 1) / panel<T>, dq_head = panels * panel<T> * s.width;
  const double task = static_cast<double>(s.queries) * static_cast<double>(std::min(s.keys, b.p.high - b.p.low + 1)) *
                      static_cast<double>(s.width + s.value_width) * static_cast<double>(s.group) /
                      static_cast<double>(b.chunks);
  const Index grain = std::max(Index{1}, static_cast<Index>(5e5 / std::max(task, 1e3)));
  if (b.chunks == 1) {
    const Index run = heads_in_a_row(s, key_heads, sizeof(T));
    const Index steps = 4 * s.group * TilesOfHead<T>(s);
    parallel_blocks(Region::attention, key_heads, std::max(run, grain), [&](Index begin, Index end) {
      Scratch<T> dq(dq_head);
      for (Index item = begin; item < end; ++item) {
        Ahead<T> ahead(steps);
        if (run > 1 && item + 1 < end) AddNextHead(b, (item + 1) / s.key_heads, (item + 1) % s.key_heads, ahead);
        BackwardTask<T>(b, item / s.key_heads, item % s.key_heads, 0, dq.data(), dq_head, ahead);
      }
    });
    return;
  }
  // [chunks, B · H, panels, D, panel]
  const Index part = s.batch * s.heads * dq_head;
  Scratch<T> parts(b.chunks * part);
  parallel_blocks(Region::attention, key_heads * b.chunks, grain, [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index chunk = item % b.chunks, key_head = item / b.chunks;
      Ahead<T> nothing(0);
      BackwardTask<T>(b, key_head / s.key_heads, key_head % s.key_heads, chunk,
                      parts.data() + chunk * part + key_head * s.group * dq_head, dq_head, nothing);
    }
  });
  if (b.dq.layout == nullptr) return;
  const Index panels_per_task = std::max(Index{1}, 50000 / std::max(Index{1}, panel<T> * s.width));
  const Index pieces = (panels + panels_per_task - 1) / panels_per_task;
  parallel_blocks(Region::attention, s.batch * s.heads * pieces, 1, [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index head = item / pieces, first = item % pieces * panels_per_task;
      StoreQueryGradients(b, head / s.heads, head % s.heads, first, std::min(panels, first + panels_per_task),
                          parts.data() + head * dq_head, part);
    }
  });
}

}  // namespace

HWY_ATTR void AttentionBackwardF32(const BackwardProblem& b) { BackwardOf<float>(b); }
HWY_ATTR void AttentionBackwardF64(const BackwardProblem& b) { BackwardOf<double>(b); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {

HWY_EXPORT(AttentionBackwardF32);
HWY_EXPORT(AttentionBackwardF64);

void attention_backward(const AttentionProblem& problem, ConstView out, ConstView logsumexp, ConstView dout, View dq,
                        View dk, View dv, View dbias) {
  const SeenKeys seen(problem);
  const BackwardProblem b{problem, AttentionSizes(problem), seen, out, logsumexp, dout, dq, dk, dv, dbias, 1};
  if (problem.q.dtype == DType::f32) {
    HWY_DYNAMIC_DISPATCH(AttentionBackwardF32)(b);
  } else {
    HWY_DYNAMIC_DISPATCH(AttentionBackwardF64)(b);
  }
}

}  // namespace capstan::kernels
#endif
