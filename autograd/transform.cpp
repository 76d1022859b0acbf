#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/transform.h>

namespace capstan::detail {

void require_cotangent(const Tensor& cotangent) {
  if (!cotangent.defined())
    fail("vjp: the cotangent must hold a value; got an empty handle; for a scalar f use grad()");
}

Transform::~Transform() {
  if (own_) own_->release();
}

void Transform::consider(const Tensor& x) {
  TapeState* tape = living_tape(Access::link(x));
  if (!tape || tape == outer_) return;
  outer_ = outer_ ? join(outer_, tape, name_) : tape;
}

Tensor Transform::watch(const Tensor& x) {
  if (!x.defined()) fail("{}: inputs must hold values; got an empty handle; assign a tensor to it first", name_);
  if (!is_float(x.dtype())) return watched_.emplace_back(x.detach());
  // A place of its own on the tape: what f captured may descend from x too, and is a constant here.
  if (living_tape(Access::link(x))) return watched_.emplace_back(accumulate({&x, 1}));
  if (outer_) return watched_.emplace_back(outer_->add_leaf(x));
  if (!own_) own_ = TapeState::acquire(true);
  return watched_.emplace_back(own_->add_leaf(x));
}

void Transform::backward(const Tensor& y, const Tensor& cotangent) {
  if (!y.defined()) fail("{}: f must return a value; got an empty handle", name_);
  if (!cotangent.defined() && y.elements() != 1)
    fail("{}: f must return a scalar; got {}; reduce it with sum() or mean(), or give a cotangent to vjp()", name_,
         y.shape());
  if (cotangent.defined() && (cotangent.shape() != y.shape() || cotangent.dtype() != y.dtype()))
    fail("{}: the cotangent must have y's shape and dtype; got {} {} for y {} {}", name_, cotangent.dtype(),
         cotangent.shape(), y.dtype(), y.shape());
  gradients_.assign(watched_.size(), Tensor());
  for (const Tensor& x : watched_)
    if (Access::link(x).tape && !living_tape(Access::link(x)))
      fail(
          "{}: the tape that f's argument stands on must outlive f; it was consumed or destroyed inside f; pass "
          "{{.keep = true}} to that backward",
          name_);
  TapeState* tape = living_tape(Access::link(y));
  std::vector<Value*> targets;
  for (const Tensor& x : watched_)
    if (tape && living_tape(Access::link(x)) == tape) targets.push_back(Access::link(x).value);
  if (!targets.empty()) {
    std::vector<Seed> seeds{{Access::link(y).value, cotangent.defined() ? cotangent : full(y.shape(), 1.0, y.dtype())}};
    // On a tape that others use too, the derivative is itself recorded, and what lies outside f is not walked.
    const bool shared = tape != own_;
    std::vector<Tensor> found = run_backward(*tape, seeds, targets, shared, shared, shared);
    std::size_t at = 0;
    for (std::size_t i = 0; i < watched_.size(); ++i)
      if (at < targets.size() && Access::link(watched_[i]).value == targets[at]) gradients_[i] = std::move(found[at++]);
  }
  for (std::size_t i = 0; i < watched_.size(); ++i)
    if (is_float(watched_[i].dtype()) && !gradients_[i].defined())
      gradients_[i] = zeros(watched_[i].shape(), watched_[i].dtype());
}

Tensor Transform::next_gradient() { return gradients_[next_++]; }

Tensor Transform::leave(const Tensor& y) const { return y.recorded() ? y : y.detach(); }

}  // namespace capstan::detail
