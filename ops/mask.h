// Which query may attend to which key: one type with one meaning, true = may attend. Not for: additive biases, which are a
// different argument of a different type (Bias in attention.h).
#pragma once

#include <capstan/autograd/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace capstan {

struct Bias;
struct ResolvedMask;

/// Where the first query stands when there are Tq queries and Tk keys: `top_left` puts query i at key i, `bottom_right`
/// puts the last query at the last key, so query i at key i + Tk − Tq (a cache that holds earlier keys).
enum class Align : std::uint8_t { top_left, bottom_right };

/// A set of (batch, head, query, key) that may attend, described without a T × T tensor where possible. A value; cheap to
/// copy. Combined by `&`: both must allow.
class Mask {
 public:
  /// Everything may attend to everything.
  Mask() = default;
  // Declared to be refused by these very lines, which compilers show.
  Mask(const Tensor&) = delete;    // a tensor is no mask: say Mask::keep(boolean), or pass numbers as a Bias
  operator Bias() const = delete;  // a mask is no bias: it forbids, a bias is added to the scores
  static Mask all() { return {}; }

  /// Query i sees the keys j ≤ p, p being its place. Without an alignment Tq must equal Tk (an Error on use otherwise).
  static Mask causal();
  static Mask causal(Align align);
  /// Query i sees the keys p − left ≤ j ≤ p + right; an absent bound is open. Errors: a negative bound; and as `causal`.
  static Mask window(std::optional<Index> left, std::optional<Index> right = 0);
  static Mask window(std::optional<Index> left, std::optional<Index> right, Align align);
  /// Query i sees the keys j with low ≤ j − i ≤ high, whatever the sizes: what `band` gives, as a mask again.
  static Mask diagonals(Index low, Index high);
  /// Sequence b has the keys j < lengths[b]: lengths [B], i32, each in [0, Tk].
  static Mask padding(const Tensor& lengths);
  static Mask padding(const std::vector<Index>& lengths);
  /// Those pairs where `keep` is true: a boolean tensor that broadcasts to [B, H, Tq, Tk]. An Error for other dtypes: a
  /// float tensor would be a bias.
  static Mask keep(const Tensor& keep);

  friend Mask operator&(const Mask& a, const Mask& b);

  /// True if the mask forbids nothing whatever the sizes; with the shape of the scores, [B, H, Tq, Tk], if it forbids
  /// nothing there by its alignment and bounds (lengths and keep tensors are not looked into).
  bool is_all() const;
  bool is_all(const Shape& scores) const;

  /// The mask as a boolean tensor [B or 1, H or 1, Tq, Tk] for scores of shape [B, H, Tq, Tk]; broadcast axes stay 1.
  /// Errors: the mask does not fit the shape; a length outside [0, Tk]; Tq ≠ Tk without an alignment.
  Tensor keep_tensor(const Shape& scores) const;
  /// Its shape alone; the same errors.
  Shape keep_shape(const Shape& scores) const;

  /// Key j is inside the band of query i where low ≤ j − i ≤ high: causality, windows and their alignments together.
  struct Band {
    Index low;
    Index high;
  };
  Band band(const Shape& scores) const;
  /// [B] i32, or an empty Tensor.
  const Tensor& lengths() const { return lengths_; }
  /// Boolean, or an empty Tensor.
  const Tensor& kept() const { return kept_; }

 private:
  struct Window {
    std::optional<Index> left;
    std::optional<Index> right;
    bool open() const { return !left && !right; }
  };
  enum Place : std::uint8_t { unaligned, top_left, bottom_right };
  static Mask make_window(Place place, std::optional<Index> left, std::optional<Index> right);

  // The same with the band at hand, which has the errors of shapes.
  friend ResolvedMask resolve(const Mask& mask, const Shape& scores, Index groups);
  bool is_all(const Shape& scores, const Band& allowed) const;
  Tensor keep_tensor(const Shape& scores, const Band& allowed) const;
  Shape shape_within(const Shape& scores) const;

  Window windows_[3];  // by Place
  Tensor lengths_;
  Tensor kept_;
};

/// A mask held against the scores of one call, as boolean tensors; each is empty where it would be true throughout.
struct ResolvedMask {
  Tensor keep;     ///< [B or 1, H or 1, Tq, Tk]: query may attend to key
  Tensor queries;  ///< [B or 1, H or 1, Tq, 1]: this query may attend to some key
  Tensor keys;     ///< [B or 1, H or 1, Tk, 1]: some query may attend to this key
};
/// `scores` is [B, H, Tq, Tk]; heads come in `groups` of equal size that share keys: `keys` has an axis of groups (or 1) in
/// place of H. Errors: as Mask::keep_tensor.
ResolvedMask resolve(const Mask& mask, const Shape& scores, Index groups);

}  // namespace capstan
