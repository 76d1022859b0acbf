#include <capstan/ops/kernels/attention_parts.h>
#include <capstan/ops/kernels/parallel.h>

#include <limits>

namespace capstan::kernels {
namespace {

/// Pairs that are looked at in one piece of work.
constexpr Index pairs_per_task = 100000;

/// seen[j] |= keep(row, j) over a range of keys.
void join(const bool* row, Index step, Range keys, bool* seen) {
  if (step == 1) {
    for (Index j = keys.begin; j < keys.end; ++j) seen[j] |= row[j];
  } else {
    for (Index j = keys.begin; j < keys.end; ++j) seen[j] |= row[j * step];
  }
}

}  // namespace

SeenKeys::SeenKeys(const AttentionProblem& p)
    : key_heads_(p.k.shape()[1]),
      keys_(p.k.shape()[2]),
      seen_(p.keep.layout == nullptr ? 0 : p.k.shape()[0] * key_heads_ * keys_) {
  if (seen_.data() == nullptr) return;
  const AttentionSizes s(p);
  const Layout& layout = *p.keep.layout;
  // What is stretched along heads or queries says the same each time; queries differ by their bands though.
  const Index heads = layout.stride(1) == 0 ? std::min(s.group, Index{1}) : s.group;
  const bool one_row = layout.stride(2) == 0;
  const Index cost = std::max(Index{1}, heads * (one_row ? 1 : s.queries) * s.keys);
  parallel_blocks(Region::attention, s.batch * s.key_heads, (pairs_per_task + cost - 1) / cost,
                  [&](Index begin, Index end) {
                    for (Index item = begin; item < end; ++item) {
                      const Index b = item / s.key_heads;
                      const Band band(p, b);
                      bool* seen = seen_.data() + item * s.keys;
                      std::fill_n(seen, s.keys, false);
                      for (Index h = item % s.key_heads * s.group, stop = h + heads; h < stop; ++h) {
                        const bool* row = p.keep.data<bool>() + b * layout.stride(0) + h * layout.stride(1);
                        if (one_row) {
                          if (s.queries > 0 && p.low <= p.high)
                            join(row, layout.stride(3), band.keys_of(0, s.queries - 1, {0, s.keys}), seen);
                          continue;
                        }
                        for (Index i = 0; i < s.queries; ++i)
                          join(row + i * layout.stride(2), layout.stride(3), band.keys_of(i, i, {0, s.keys}), seen);
                      }
                    }
                  });
}

template <class T>
bool pair_terms(const AttentionProblem& p, const PairTile& tile, T factor, T* terms) {
  const auto place = [&](const Layout& layout) {
    return tile.b * layout.stride(0) + tile.h * layout.stride(1) + tile.query * layout.stride(2) +
           tile.key * layout.stride(3);
  };
  for (Index j = 0; j < tile.keys; ++j) std::fill_n(terms + j * tile.row, tile.row, T{0});
  if (p.bias.layout != nullptr) {
    const Layout& layout = *p.bias.layout;
    const T* bias = p.bias.data<T>() + place(layout);
    for (Index i = 0; i < tile.queries; ++i)
      for (Index j = 0; j < tile.keys; ++j)
        terms[j * tile.row + i] = bias[i * layout.stride(2) + j * layout.stride(3)] * factor;
  }
  if (p.keep.layout == nullptr) return true;
  const Layout& layout = *p.keep.layout;
  const bool* keep = p.keep.data<bool>() + place(layout);
  bool any = false;
  for (Index i = 0; i < tile.queries; ++i)
    for (Index j = 0; j < tile.keys; ++j) {
      const bool may = keep[i * layout.stride(2) + j * layout.stride(3)];
      any |= may;
      if (!may) terms[j * tile.row + i] = -std::numeric_limits<T>::infinity();
    }
  return any;
}

template <class T>
void dropout_factors(const AttentionProblem& p, const PairTile& tile, T* factors) {
  const Index heads = p.q.shape()[1], queries = p.q.shape()[2], keys = p.k.shape()[2];
  constexpr Index chunk = 128;
  bool kept[chunk];
  for (Index j = 0; j < tile.keys; ++j) std::fill_n(factors + j * tile.row, tile.row, T{0});
  for (Index i = 0; i < tile.queries; ++i) {
    const Index first = ((tile.b * heads + tile.h) * queries + tile.query + i) * keys + tile.key;
    for (Index begin = 0; begin < tile.keys; begin += chunk) {
      const Index count = std::min(chunk, tile.keys - begin);
      p.dropout->fill(kept, count, first + begin);
      for (Index j = 0; j < count; ++j)
        factors[(begin + j) * tile.row + i] = kept[j] ? static_cast<T>(p.dropout_factor) : T{0};
    }
  }
}

template bool pair_terms(const AttentionProblem&, const PairTile&, float, float*);
template bool pair_terms(const AttentionProblem&, const PairTile&, double, double*);
template void dropout_factors(const AttentionProblem&, const PairTile&, float*);
template void dropout_factors(const AttentionProblem&, const PairTile&, double*);

}  // namespace capstan::kernels
