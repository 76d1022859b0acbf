// One head of queries with its cotangents and statistics, packed for attention's backward. For inclusion by
// attention_backward.cpp.

#if defined(CAPSTAN_OPS_KERNELS_ATTENTION_PACKED_HEAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_OPS_KERNELS_ATTENTION_PACKED_HEAD_INL_H
#undef CAPSTAN_OPS_KERNELS_ATTENTION_PACKED_HEAD_INL_H
#else
#define CAPSTAN_OPS_KERNELS_ATTENTION_PACKED_HEAD_INL_H
#endif

#include <capstan/ops/kernels/attention_panels-inl.h>

#include <limits>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
bool HasDeadQueries(const BackwardProblem& b, Index batch, Index key_head) {
  for (Index h = key_head * b.s.group; h < (key_head + 1) * b.s.group; ++h) {
    const HeadStatistic<const T> logsumexp(b.logsumexp, batch, h);
    for (Index i = 0; i < b.s.queries; ++i)
      if (logsumexp[i] == -std::numeric_limits<T>::infinity()) return true;
  }
  return false;
}

/// One head of queries, packed: as panels to be multiplied by K and V, as rows for dK and dV.
template <class T>
struct PackedHead {
  Index width, value_width, queries, panels;
  bool dead;
  Scratch<T> memory, q_copy, dout_copy;
  Scratch<bool> alive;
  T *q, *dout, *minus_logsumexp, *minus_delta;  // by panels
  DenseRows<T> q_rows, dout_rows;

  PackedHead(const BackwardProblem& b, Index batch, Index key_head)
      : width(b.s.width),
        value_width(b.s.value_width),
        queries(b.s.queries),
        panels((queries + panel<T> - 1) / panel<T>),
        dead(HasDeadQueries<T>(b, batch, key_head)),
        memory(panels * panel<T> * (width + value_width + 2)),
        q_copy(dead || !InPlace(b.p.q.layout->stride(3), width) ? queries * Padded<T>(width) : 0),
        dout_copy(dead || !InPlace(b.dout.layout->stride(3), value_width) ? queries * Padded<T>(value_width) : 0),
        alive(queries) {
    q = memory.data();
    dout = q + panels * panel<T> * width;
    minus_logsumexp = dout + panels * panel<T> * value_width;
    minus_delta = minus_logsumexp + panels * panel<T>;
  }

  /// Rows that crowd are no matter here: they are read by vectors, one after the other.
  static bool InPlace(Index column, Index columns) { return column == 1 && columns % lanes<T> == 0; }

  /// Queries without keys are taken as zeros, and so are their cotangents.
  DenseRows<T> Rows(HeadRows<const T> x, Index columns, T* copy) const {
    if (!dead && InPlace(x.column, columns)) return {x.data, x.row};
    for (Index i = 0; i < queries; ++i)
      CopyRow(x, i, columns, Padded<T>(columns), alive[i], copy + i * Padded<T>(columns));
    return {copy, Padded<T>(columns)};
  }

  void Pack(const BackwardProblem& b, Index batch, Index h) {
    const HeadRows<const T> out(b.out, batch, h);
    const HeadStatistic<const T> logsumexp(b.logsumexp, batch, h);
    const T lowest = -std::numeric_limits<T>::infinity();
    for (Index i = 0; i < queries; ++i) {
      alive[i] = logsumexp[i] != lowest;
      minus_logsumexp[i] = alive[i] ? -logsumexp[i] * std::numbers::log2e_v<T> : lowest;
    }
    q_rows = Rows(HeadRows<const T>(b.p.q, batch, h), width, q_copy.data());
    dout_rows = Rows(HeadRows<const T>(b.dout, batch, h), value_width, dout_copy.data());
    for (Index i = 0; i < queries; ++i)
      minus_delta[i] = -Dot(dout_rows.data + i * dout_rows.row, out.data + i * out.row, out.column);
    // Lanes beyond the last query weigh nothing.
    std::fill(minus_logsumexp + queries, minus_logsumexp + panels * panel<T>, lowest);
    std::fill(minus_delta + queries, minus_delta + panels * panel<T>, T{0});
    const T factor = static_cast<T>(b.p.scale * std::numbers::log2e);
    for (Index at = 0; at < panels; ++at) {
      const Index first = at * panel<T>, count = std::min(panel<T>, queries - first);
      PackPanel(DenseRows<T>{q_rows.data + first * q_rows.row, q_rows.row}, count, width, factor, q + first * width);
      PackPanel(DenseRows<T>{dout_rows.data + first * dout_rows.row, dout_rows.row}, count, value_width, T{1},
                dout + first * value_width);
    }
  }

  HWY_INLINE T Dot(const T* a, const T* b, Index b_step) const {
    const hn::ScalableTag<T> d;
    auto sum = hn::Zero(d);
    Index i = 0;
    if (b_step == 1)
      for (; i + lanes<T> <= value_width; i += lanes<T>)
        sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
    T total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < value_width; ++i) total += a[i] * b[i * b_step];
    return total;
  }
};

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
