// What the attention kernels share that is not SIMD: sizes, which keys a query may see, and the terms of single pairs.
// Internal to them.
#pragma once

#include <capstan/ops/kernels/attention.h>
#include <capstan/ops/kernels/scratch.h>

#include <algorithm>
#include <limits>

namespace capstan::kernels {

struct AttentionSizes {
  Index batch, heads, key_heads, group, queries, keys, width, value_width;
  explicit AttentionSizes(const AttentionProblem& p)
      : batch(p.q.shape()[0]),
        heads(p.q.shape()[1]),
        key_heads(p.k.shape()[1]),
        group(key_heads == 0 ? 0 : heads / key_heads),
        queries(p.q.shape()[2]),
        keys(p.k.shape()[2]),
        width(p.q.shape()[3]),
        value_width(p.v.shape()[3]) {}
};

/// How many of `heads` heads a thread takes in a row, each bringing the next one near (Ahead): more than 1 where they
/// are many, short, and all together beyond a core's cache.
inline Index heads_in_a_row(const AttentionSizes& s, Index heads, Index element_bytes) {
  constexpr Index longest = 512, cache = Index{1} << 20;
  const Index rows = s.batch * (s.heads * s.queries + s.key_heads * s.keys);
  if (std::max(s.queries, s.keys) > longest || rows * (s.width + s.value_width) * element_bytes < cache) return 1;
  return std::clamp(heads / 16, Index{1}, Index{8});
}

/// One head of a tensor [B, H, T, D].
template <class T>
struct HeadRows {
  T* data;
  Index row, column;  // strides
  template <class V>
  HeadRows(const V& view, Index b, Index h)
      : data(view.template data<std::remove_const_t<T>>() + b * view.layout->stride(0) + h * view.layout->stride(1)),
        row(view.layout->stride(2)),
        column(view.layout->stride(3)) {}
};

/// One head's statistics [Tq].
template <class T>
struct HeadStatistic {
  T* data;
  Index step;
  template <class V>
  HeadStatistic(const V& x, Index b, Index h)
      : data(x.template data<std::remove_const_t<T>>() + b * x.layout->stride(0) + h * x.layout->stride(1)),
        step(x.layout->stride(2)) {}
  T& operator[](Index i) const { return data[i * step]; }
};

/// A query without keys has gradients of exactly 0, though 0 times a NaN among the keys was met on the way: rows of dq from `query`.
template <class T>
void clear_dead_rows(ConstView logsumexp, Index b, Index h, Index query, Index count, Index width, HeadRows<T> dq) {
  const HeadStatistic<const T> of(logsumexp, b, h);
  for (Index i = query; i < query + count; ++i)
    if (of[i] == -std::numeric_limits<T>::infinity()) std::fill_n(dq.data + i * dq.row, width, T{0});
}

inline Index visible_keys(const AttentionProblem& p, Index b) {
  if (p.lengths.layout == nullptr) return p.k.shape()[2];
  return p.lengths.data<std::int32_t>()[b * p.lengths.layout->stride(0)];
}

/// A range of keys or queries; empty if begin ≥ end.
struct Range {
  Index begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  Index count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The band and a length: what makes up a mask apart from its keep tensor.
struct Band {
  Index low, high;
  Index visible;  // keys of this batch item
  // A band of no width sees nothing, though the ranges of several queries might overlap.
  Band(const AttentionProblem& p, Index b) : low(p.low), high(p.high), visible(low > high ? 0 : visible_keys(p, b)) {}
  /// Keys that some query of [first, last] may see, within `keys`.
  Range keys_of(Index first, Index last, Range keys) const {
    return {std::max({keys.begin, first + low, Index{0}}), std::min({keys.end, last + high + 1, visible})};
  }
  /// Queries that may see some key of [first, last], within `queries`.
  Range queries_of(Index first, Index last, Range queries) const {
    return {std::max(queries.begin, first - high), std::min(queries.end, last - low + 1)};
  }
  /// True if some query of [first, last] may not see some key of `keys`, none of which is beyond the length.
  bool cuts(Index first, Index last, Range keys) const {
    return keys.begin < last + low || keys.end - 1 > first + high;
  }
};

/// Which keys of [B, Hkv, Tk] some query of their batch and group may see. Without a keep tensor they are ranges that the
/// kernels follow anyway, and nothing is stored.
class SeenKeys {
 public:
  explicit SeenKeys(const AttentionProblem& p);
  /// [Tk], or null if all keys in the band's ranges are seen.
  const bool* of(Index b, Index key_head) const {
    return seen_.data() == nullptr ? nullptr : seen_.data() + (b * key_heads_ + key_head) * keys_;
  }

 private:
  Index key_heads_, keys_;
  Scratch<bool> seen_;
};

/// A tile of scores: keys from `key`, queries from `query` of head h in batch b; element (j, i) lies at j · row + i.
struct PairTile {
  Index b, h, key, keys, query, queries, row;
};

/// terms(j, i) = bias · factor, and −∞ where the keep tensor forbids; 0 beyond `queries`. False if it forbids everything.
template <class T>
bool pair_terms(const AttentionProblem& p, const PairTile& tile, T factor, T* terms);

/// factors(j, i) = the dropout factor where the weight is kept, else 0; 0 beyond `queries`.
template <class T>
void dropout_factors(const AttentionProblem& p, const PairTile& tile, T* factors);

/// What the tasks of backward share.
struct BackwardProblem {
  const AttentionProblem& p;
  AttentionSizes s;
  const SeenKeys& seen;
  ConstView out, logsumexp, dout;
  View dq, dk, dv, dbias;
  Index chunks;  // of the blocks of keys
};

}  // namespace capstan::kernels
