// One call of the attention kernels for their tests: all that it may be given, at random, and its definition in f64.
#pragma once

#include <capstan/ops/kernels/attention.h>

#include <optional>

#include "ops/kernels/arrays.h"

namespace capstan::kernels::test {

struct Sizes {
  Index batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, width = 1, value_width = 1;
  Shape scores() const { return {batch, heads, queries, keys}; }
};

/// One call with everything that it may be given; owns its arrays.
template <class T>
struct Attention {
  Sizes s;
  Array<T> q, k, v, dout;
  double scale = 0.5;
  Index low, high;
  std::optional<Array<std::int32_t>> lengths = {};
  std::optional<Array<bool>> keep = {};
  std::optional<Array<T>> bias = {};
  bool bias_gradient = true;
  double dropped = 0;
  Key key{.seed = 3};

  Attention(const Sizes& sizes, Random& random, bool any_stride = false)
      : s(sizes),
        q(make({s.batch, s.heads, s.queries, s.width}, random, any_stride)),
        k(make({s.batch, s.key_heads, s.keys, s.width}, random, any_stride)),
        v(make({s.batch, s.key_heads, s.keys, s.value_width}, random, any_stride)),
        dout(make({s.batch, s.heads, s.queries, s.value_width}, random, any_stride)),
        low(-s.queries),
        high(s.keys) {}

  static Array<T> make(const Shape& shape, Random& random, bool any_stride) {
    Array<T> x = any_stride ? strided<T>(shape, random) : Array<T>(shape);
    randomize(x, random);
    return x;
  }
  bool may(Index b, Index h, Index i, Index j) const {
    const Index pair = ((b * s.heads + h) * s.queries + i) * s.keys + j;
    return low <= j - i && j - i <= high && (!lengths || j < (*lengths)[b]) &&
           (!keep || (*keep)[broadcast_place(keep->shape(), s.scores(), pair)]);
  }
  bool seen(Index b, Index key_head, Index j) const {
    const Index group = s.heads / s.key_heads;
    for (Index h = key_head * group; h < (key_head + 1) * group; ++h)
      for (Index i = 0; i < s.queries; ++i)
        if (may(b, h, i, j)) return true;
    return false;
  }
  bool alive(Index b, Index h, Index i) const {
    for (Index j = 0; j < s.keys; ++j)
      if (may(b, h, i, j)) return true;
    return false;
  }
};

/// Values and gradients, row-major.
template <class T>
struct Results {
  Array<T> out, logsumexp, dq, dk, dv, dbias;
  double cancelled = 0;  // the largest Σ |v · dout| of a pair, which dP − delta cancels
  explicit Results(const Sizes& s)
      : out(Shape{s.batch, s.heads, s.queries, s.value_width}),
        logsumexp(Shape{s.batch, s.heads, s.queries}),
        dq(Shape{s.batch, s.heads, s.queries, s.width}),
        dk(Shape{s.batch, s.key_heads, s.keys, s.width}),
        dv(Shape{s.batch, s.key_heads, s.keys, s.value_width}),
        dbias(s.scores()) {}
  std::string bytes() const {
    return out.bytes() + logsumexp.bytes() + dq.bytes() + dk.bytes() + dv.bytes() + dbias.bytes();
  }
};

template <class T>
Results<T> by_tiles(const Attention<T>& a) {
  Results<T> r(a.s);
  for (Array<T>* x : {&r.out, &r.logsumexp, &r.dq, &r.dk, &r.dv, &r.dbias}) x->fill_all(static_cast<T>(NAN));
  AttentionProblem p{.q = a.q.in(), .k = a.k.in(), .v = a.v.in(), .scale = a.scale, .low = a.low, .high = a.high};
  Layout kept, added;
  if (a.lengths) p.lengths = a.lengths->in();
  if (a.keep) {
    kept = a.keep->layout().broadcast_to(a.s.scores());
    p.keep = {a.keep->in().bytes, &kept, DType::boolean};
  }
  if (a.bias) {
    added = a.bias->layout().broadcast_to(a.s.scores());
    p.bias = {a.bias->in().bytes, &added, dtype_of<T>};
  }
  if (a.dropped > 0) {
    p.dropout = Keep(a.key, a.dropped);
    p.dropout_factor = 1 / (1 - a.dropped);
  }
  attention(p, r.out.out(), r.logsumexp.out());
  attention_backward(p, r.out.in(), r.logsumexp.in(), a.dout.in(), r.dq.out(), r.dk.out(), r.dv.out(),
                     a.bias_gradient ? r.dbias.out() : View{});
  return r;
}

template <class T>
Results<double> by_definition(const Attention<T>& a) {
  const Sizes& s = a.s;
  Results<double> r(s);
  const Keep kept(a.key, a.dropped);
  std::vector<double> p(static_cast<std::size_t>(s.keys)), dp(p.size()), factor(p.size());
  for (Index b = 0; b < s.batch; ++b)
    for (Index h = 0; h < s.heads; ++h)
      for (Index i = 0; i < s.queries; ++i) {
        const Index row = (b * s.heads + h) * s.queries + i, key_head = b * s.key_heads + h / (s.heads / s.key_heads);
        const auto at = [](const Array<T>& x, Index place) { return static_cast<double>(x[place]); };
        double most = -INFINITY, total = 0, delta = 0;
        for (Index j = 0; j < s.keys; ++j) {
          double& score = p[static_cast<std::size_t>(j)];
          score = -INFINITY;
          if (!a.may(b, h, i, j)) continue;
          score = a.bias ? at(*a.bias, broadcast_place(a.bias->shape(), s.scores(), row * s.keys + j)) : 0;
          for (Index d = 0; d < s.width; ++d)
            score += a.scale * at(a.q, row * s.width + d) * at(a.k, (key_head * s.keys + j) * s.width + d);
          most = std::max(most, score);
        }
        for (double& x : p) total += x = std::isinf(most) ? 0 : std::exp(x - most);
        r.logsumexp[row] = total == 0 ? -INFINITY : most + std::log(total);
        for (Index j = 0; j < s.keys; ++j) {
          const auto n = static_cast<std::size_t>(j);
          if (total > 0) p[n] /= total;
          factor[n] = a.dropped == 0 ? 1 : kept(row * s.keys + j) ? 1 / (1 - a.dropped) : 0;
          dp[n] = 0;
          if (p[n] == 0) continue;
          double size = 0;
          for (Index d = 0; d < s.value_width; ++d) {
            const double value = at(a.v, (key_head * s.keys + j) * s.value_width + d),
                         up = at(a.dout, row * s.value_width + d);
            r.out[row * s.value_width + d] += p[n] * factor[n] * value;
            r.dv[(key_head * s.keys + j) * s.value_width + d] += p[n] * factor[n] * up;
            dp[n] += factor[n] * value * up;
            size += std::abs(factor[n] * value * up);
          }
          r.cancelled = std::max(r.cancelled, size);
          delta += p[n] * dp[n];
        }
        for (Index j = 0; j < s.keys; ++j) {
          const auto n = static_cast<std::size_t>(j);
          const double ds = p[n] * (dp[n] - delta);
          r.dbias[row * s.keys + j] = ds;
          if (p[n] == 0) continue;
          for (Index d = 0; d < s.width; ++d) {
            r.dq[row * s.width + d] += a.scale * ds * at(a.k, (key_head * s.keys + j) * s.width + d);
            r.dk[(key_head * s.keys + j) * s.width + d] += a.scale * ds * at(a.q, row * s.width + d);
          }
        }
      }
  return r;
}

/// Rounding grows with the size of what is summed, also where it cancels. What nobody may see is exactly 0.
template <class T>
void expect_definition(const Attention<T>& a) {
  const Sizes& s = a.s;
  const Results<T> got = by_tiles(a);
  const Results<double> want = by_definition(a);
  const auto compare = [&](const char* name, const Array<T>& x, const Array<double>& y, auto&& reached) {
    if (testing::Test::HasFailure()) return;
    double largest = 1;
    for (Index i = 0; i < y.elements(); ++i)
      if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
    for (Index i = 0; i < y.elements(); ++i) {
      const bool exact = y[i] == 0 && !reached(i);
      expect_near(static_cast<double>(x[i]), y[i], 0,
                  exact ? 0 : epsilon<T> * std::max(60 * largest, 10 * want.cancelled), name);
      if (testing::Test::HasFailure()) return;
    }
  };
  const auto query = [&](Index width) {
    return [&, width](Index i) {
      const Index row = i / width;
      return a.alive(row / s.queries / s.heads, row / s.queries % s.heads, row % s.queries);
    };
  };
  const auto key = [&](Index width) {
    return [&, width](Index i) {
      const Index row = i / width;
      return a.seen(row / s.keys / s.key_heads, row / s.keys % s.key_heads, row % s.keys);
    };
  };
  compare("out", got.out, want.out, query(s.value_width));
  compare("logsumexp", got.logsumexp, want.logsumexp, query(1));
  compare("dq", got.dq, want.dq, query(s.width));
  compare("dk", got.dk, want.dk, key(s.width));
  compare("dv", got.dv, want.dv, key(s.value_width));
  if (!a.bias_gradient) return;
  compare("dbias", got.dbias, want.dbias, [&](Index i) {
    const Index row = i / s.keys;
    return a.may(row / s.queries / s.heads, row / s.queries % s.heads, row % s.queries, i % s.keys);
  });
}

inline Sizes random_sizes(Random& random, Index longest) {
  const Index key_heads = pick(random, 1, 2);
  return {pick(random, 1, 2),       key_heads * pick(random, 1, 3), key_heads,
          pick(random, 1, longest), pick(random, 1, longest),       pick(random, 1, 20),
          pick(random, 1, 40)};
}

template <class T>
void randomize_band(Attention<T>& a, Random& random) {
  switch (pick(random, 0, 4)) {
    case 0: break;
    case 1: a.high = 0; break;
    case 2: a.high = a.s.keys - a.s.queries; break;
    case 3:
      a.low = pick(random, -a.s.queries, a.s.keys);
      a.high = a.low + pick(random, 0, 30);
      break;
    case 4: a.low = pick(random, -5, 5); break;
  }
  if (pick(random, 0, 2) > 0) return;
  a.lengths.emplace(Shape{a.s.batch});
  for (Index b = 0; b < a.s.batch; ++b)
    (*a.lengths)[b] = static_cast<std::int32_t>(pick(random, 0, 4) == 0 ? 0 : pick(random, 0, a.s.keys));
}

template <class T>
void randomize_terms(Attention<T>& a, Random& random) {
  const Shape scores = a.s.scores();
  const Index kind = pick(random, 1, 7);
  if (kind & 1) {
    a.keep.emplace(strided<bool>(broadcastable(scores, random), random));
    const Index rare = pick(random, 1, 8);
    for (Index i = 0; i < a.keep->elements(); ++i) (*a.keep)[i] = pick(random, 0, rare) == 0;
  }
  if (kind & 2) {
    a.bias.emplace(strided<T>(broadcastable(scores, random), random));
    randomize(*a.bias, random);
  }
  if (kind & 4) a.dropped = 0.3;
}

}  // namespace capstan::kernels::test
