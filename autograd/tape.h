// The tape: an append-only list of recorded calls, and backward, which walks it from the end.
#pragma once

#include <capstan/autograd/gradients.h>
#include <capstan/autograd/op.h>

#include <initializer_list>
#include <span>

namespace capstan {

namespace detail {
struct Seed;
struct TapeDoor;
}  // namespace detail

struct BackwardOptions {
  /// Keep the tape for another backward; otherwise it is consumed: what it saved is freed as the walk proceeds.
  bool keep = false;
  /// Record the backward pass itself, so that the gradients can be differentiated. Implies keep.
  bool create_graph = false;
};

/// An output and its cotangent (upstream gradient); without one, y must be a scalar and the cotangent is 1.
struct Root {
  Tensor y;
  Tensor cotangent = {};
};

/// Owns what was recorded from its watched tensors. One tape, one thread; many tapes, many threads. Neither moves nor copies.
/// When it is consumed or destroyed, all tensors that it recorded become constants.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Returns x as a leaf of this tape: what is computed from it is recorded, and its gradient is kept. A tensor that is
  /// recorded here already keeps its gradient too. Errors: x is not f32 or f64; x is recorded on another living tape.
  Tensor watch(const Tensor& x);

  /// Reverse-mode differentiation: the gradients of Σ ⟨cotangent, y⟩ with respect to all watched tensors.
  /// Errors: y is no scalar and has no cotangent; y is not recorded here; the tape was consumed.
  Gradients backward(const Tensor& y, BackwardOptions options = {});
  Gradients backward(const Tensor& y, const Tensor& cotangent, BackwardOptions options = {});
  Gradients backward(std::initializer_list<Root> roots, BackwardOptions options = {});
  Gradients backward(std::span<const Root> roots, BackwardOptions options = {});

  /// Recorded calls, watched leaves included.
  Index size() const;
  /// Bytes of the tensors that the recorded rules keep alive (each storage counted where it is saved).
  Index saved_bytes() const;
  /// Names of the recorded ops in order; "" for a watched leaf.
  std::vector<std::string_view> names() const;

 private:
  friend struct detail::TapeDoor;
  Gradients run(std::span<detail::Seed> seeds, BackwardOptions options);
  detail::TapeState* state_;
};

}  // namespace capstan
