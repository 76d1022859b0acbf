#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/mask.h>
#include <capstan/ops/require.h>

#include <algorithm>
#include <limits>

namespace capstan {

namespace {

using Bounds = std::optional<Index>;

Bounds tighter(Bounds a, Bounds b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

Tensor shorter(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (a.shape() != b.shape())
    fail("mask: masks of one batch are combined; got lengths of {} and {}", a.shape(), b.shape());
  std::vector<std::int32_t> lengths = a.to_vector<std::int32_t>();
  const std::vector<std::int32_t> others = b.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = std::min(lengths[i], others[i]);
  return tensor(lengths, a.shape());
}

void require_scores(const Shape& scores) {
  if (scores.rank() != 4) fail("mask: scores must be [B, H, Tq, Tk]; got {}", scores);
}

}  // namespace

// ---- making masks ---------------------------------------------------------------------------------------------------

Mask Mask::make_window(Place place, Bounds left, Bounds right) {
  if ((left && *left < 0) || (right && *right < 0))
    fail("mask: window bounds must not be negative; got left {} and right {}", left.value_or(0), right.value_or(0));
  Mask mask;
  mask.windows_[place] = {left, right};
  return mask;
}

Mask Mask::causal() { return make_window(unaligned, std::nullopt, 0); }
Mask Mask::causal(Align align) { return window(std::nullopt, 0, align); }
Mask Mask::window(Bounds left, Bounds right) { return make_window(unaligned, left, right); }
Mask Mask::window(Bounds left, Bounds right, Align align) {
  return make_window(align == Align::top_left ? top_left : bottom_right, left, right);
}

Mask Mask::diagonals(Index low, Index high) {
  Mask mask;
  // Far bounds are brought to where sums with positions cannot overflow.
  constexpr Index far = Index{1} << 60;
  mask.windows_[top_left] = {-std::clamp(low, -far, far), std::clamp(high, -far, far)};
  return mask;
}

Mask Mask::padding(const Tensor& lengths) {
  ops::require_defined("mask", "lengths", lengths);
  if (lengths.dtype() != DType::i32 || lengths.rank() != 1)
    fail("mask: lengths must be i32 [B]; got {} {}", lengths.dtype(), lengths.shape());
  Mask mask;
  mask.lengths_ = lengths.dense();
  return mask;
}

Mask Mask::padding(const std::vector<Index>& lengths) {
  std::vector<std::int32_t> narrow;
  narrow.reserve(lengths.size());
  for (const Index length : lengths) {
    if (length < 0 || length > std::numeric_limits<std::int32_t>::max())
      fail("mask: lengths must be in [0, 2^31); got {} at [{}]", length, narrow.size());
    narrow.push_back(static_cast<std::int32_t>(length));
  }
  return padding(tensor(narrow, Shape{static_cast<Index>(narrow.size())}));
}

Mask Mask::keep(const Tensor& keep) {
  ops::require_defined("mask", "keep", keep);
  if (keep.dtype() != DType::boolean)
    fail(
        "mask: keep must be bool, true where a query may attend; got {}; pass numbers to be added to the scores as a "
        "Bias",
        keep.dtype());
  if (keep.rank() > 4) fail("mask: keep must broadcast to [B, H, Tq, Tk]; got {}", keep.shape());
  Mask mask;
  mask.kept_ = keep;
  return mask;
}

Mask operator&(const Mask& a, const Mask& b) {
  Mask both;
  for (int place = 0; place < 3; ++place)
    both.windows_[place] = {tighter(a.windows_[place].left, b.windows_[place].left),
                            tighter(a.windows_[place].right, b.windows_[place].right)};
  both.lengths_ = shorter(a.lengths_, b.lengths_);
  both.kept_ = !a.kept_.defined() ? b.kept_ : !b.kept_.defined() ? a.kept_ : logical_and(a.kept_, b.kept_);
  return both;
}

// ---- asking masks ---------------------------------------------------------------------------------------------------

bool Mask::is_all() const {
  return windows_[0].open() && windows_[1].open() && windows_[2].open() && !lengths_.defined() && !kept_.defined();
}

bool Mask::is_all(const Shape& scores) const { return is_all(scores, band(scores)); }

bool Mask::is_all(const Shape& scores, const Band& allowed) const {
  return !lengths_.defined() && !kept_.defined() && allowed.low <= 1 - scores[2] && allowed.high >= scores[3] - 1;
}

Mask::Band Mask::band(const Shape& scores) const {
  require_scores(scores);
  const Index queries = scores[2], keys = scores[3];
  if (!windows_[unaligned].open() && queries != keys)
    fail(
        "mask: causal() and window() need Tq = Tk or an alignment; got Tq {} and Tk {}; say Align::top_left or "
        "Align::bottom_right",
        queries, keys);
  Band band{-queries, keys};
  for (const Place place : {unaligned, top_left, bottom_right}) {
    const Window& window = windows_[place];
    const Index shift = place == bottom_right ? keys - queries : 0;
    // Bounds wider than the scores say nothing; capping them keeps the sums from overflowing.
    if (window.left) band.low = std::max(band.low, shift - std::min(*window.left, queries + keys));
    if (window.right) band.high = std::min(band.high, shift + std::min(*window.right, queries + keys));
  }
  return band;
}

// ---- masks as tensors -----------------------------------------------------------------------------------------------

Shape Mask::keep_shape(const Shape& scores) const {
  band(scores);  // for its errors
  return shape_within(scores);
}

Shape Mask::shape_within(const Shape& scores) const {
  const Index batch = scores[0], keys = scores[3];
  Shape shape{1, 1, scores[2], keys};
  if (kept_.defined()) {
    const int missing = 4 - kept_.rank();
    for (int axis = missing; axis < 4; ++axis) {
      const Index size = kept_.shape()[axis - missing];
      if (size != scores[axis] && size != 1)
        fail("mask: keep must broadcast to the scores {}; got {}", scores, kept_.shape());
      if (axis < 2) shape.set(axis, size);
    }
  }
  if (lengths_.defined()) {
    if (lengths_.elements() != batch) fail("mask: lengths must be [B] = [{}]; got {}", batch, lengths_.shape());
    ops::require_ids("mask", "lengths", lengths_.view(), keys + 1);
    shape.set(0, batch);
  }
  return shape;
}

Tensor Mask::keep_tensor(const Shape& scores) const { return keep_tensor(scores, band(scores)); }

Tensor Mask::keep_tensor(const Shape& scores, const Band& allowed) const {
  const Shape shape = shape_within(scores);
  const Index queries = scores[2], keys = scores[3];
  std::vector<std::int32_t> lengths;
  if (lengths_.defined()) lengths = lengths_.to_vector<std::int32_t>();
  Layout kept;
  if (kept_.defined()) kept = kept_.layout().broadcast_to(shape);

  Buffer buffer(shape, DType::boolean);
  const auto elements = buffer.data<bool>();
  std::ranges::fill(elements, false);
  bool* out = elements.data();
  const bool* kept_data = kept_.defined() ? static_cast<const bool*>(kept_.view().bytes) : nullptr;
  for (Index b = 0; b < shape[0]; ++b) {
    const Index visible = lengths.empty() ? keys : lengths[static_cast<std::size_t>(b)];
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < queries; ++i, out += keys) {
        const Index stop = std::clamp<Index>(i + allowed.high + 1, 0, visible);
        const Index start = std::clamp<Index>(i + allowed.low, 0, stop);
        std::fill(out + start, out + stop, true);
        if (!kept_data) continue;
        const bool* row = kept_data + kept.offset() + b * kept.stride(0) + h * kept.stride(1) + i * kept.stride(2);
        for (Index j = start; j < stop; ++j) out[j] = row[j * kept.stride(3)];
      }
    }
  }
  return buffer;
}

namespace {

/// The tensor, or none if it is true throughout.
Tensor unless_all(Buffer buffer) {
  const auto elements = buffer.data<bool>();
  if (std::all_of(elements.begin(), elements.end(), [](bool x) { return x; })) return {};
  return buffer;
}

}  // namespace

ResolvedMask resolve(const Mask& mask, const Shape& scores, Index groups) {
  const Mask::Band band = mask.band(scores);
  if (mask.is_all(scores, band)) return {};
  const Tensor keep = mask.keep_tensor(scores, band);
  // Where nothing but a band around the diagonal is asked for, every query sees its own key, and every key is seen.
  if (!mask.lengths().defined() && !mask.kept().defined() && scores[2] == scores[3] && band.low <= 0 && band.high >= 0)
    return {keep, {}, {}};
  const Index batch = keep.size(0), heads = keep.size(1), queries = keep.size(2), keys = keep.size(3);
  const Index key_heads = heads == 1 ? 1 : groups;
  Buffer some_key(Shape{batch, heads, queries, 1}, DType::boolean);
  Buffer some_query(Shape{batch, key_heads, keys, 1}, DType::boolean);
  bool* alive = some_key.data<bool>().data();
  const auto seen = some_query.data<bool>();
  std::ranges::fill(seen, false);
  const bool* row = keep.data<bool>().data();
  bool all = true;
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      bool* seen_row = seen.data() + (b * key_heads + h * key_heads / heads) * keys;
      for (Index i = 0; i < queries; ++i, row += keys) {
        bool any = false;
        for (Index j = 0; j < keys; ++j) {
          any |= row[j];
          all &= row[j];
          seen_row[j] |= row[j];
        }
        *alive++ = any;
      }
    }
  }
  return {all ? Tensor() : keep, unless_all(std::move(some_key)), unless_all(std::move(some_query))};
}

}  // namespace capstan
