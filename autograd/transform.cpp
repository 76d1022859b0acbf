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

void require_like(const char* name, const char* what, const Tensor& direction, const Tensor& x,
                  const std::string& path) {
  if (!x.defined() || !is_float(x.dtype())) return;
  if (direction.defined() && direction.shape() == x.shape() && direction.dtype() == x.dtype()) return;
  fail("{}: {} must have x's shape and dtype; got {} for {} {}{}", name, what,
       direction.defined() ? fmt::format("{} {}", direction.dtype(), direction.shape()) : "an empty handle", x.dtype(),
       x.shape(), path.empty() ? "" : " at " + path);
}

void require_count(const char* name, const char* what, std::size_t directions, std::size_t tensors) {
  if (directions != tensors)
    fail("{}: {} must have x's structure; got {} tensors for {}", name, what, directions, tensors);
}

namespace {
/// In the order of `targets`; empty where none was reached.
std::vector<Tensor> gradients_of(TapeState& tape, std::span<Seed> seeds, std::span<Value* const> targets,
                                 BackwardRun options) {
  std::vector<Tensor> gradients(targets.size());
  run_backward(tape, seeds, targets, options, [&](std::size_t i, Tensor&& x) { gradients[i] = std::move(x); });
  return gradients;
}
}  // namespace

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

void Transform::check_argument_lives() const {
  for (const Tensor& x : watched_)
    if (Access::link(x).tape && !living_tape(Access::link(x)))
      fail(
          "{}: the tape that f's argument stands on must outlive f; it was consumed or destroyed inside f; pass "
          "{{.keep = true}} to that backward",
          name_);
}

/// The one tape on which all watched tensors stand; null if none could be watched.
TapeState* Transform::tape() const {
  for (const Tensor& x : watched_)
    if (TapeState* tape = living_tape(Access::link(x))) return tape;
  return nullptr;
}

std::vector<Value*> Transform::targets() const {
  std::vector<Value*> targets;
  for (const Tensor& x : watched_)
    if (living_tape(Access::link(x))) targets.push_back(Access::link(x).value);
  return targets;
}

void Transform::backward(const Tensor& y, const Tensor& cotangent, bool keep) {
  if (!y.defined()) fail("{}: f must return a value; got an empty handle", name_);
  if (!cotangent.defined() && y.elements() != 1)
    fail("{}: f must return a scalar; got {}; reduce it with sum() or mean(), or give a cotangent to vjp()", name_,
         y.shape());
  if (cotangent.defined() && (cotangent.shape() != y.shape() || cotangent.dtype() != y.dtype()))
    fail("{}: the cotangent must have y's shape and dtype; got {} {} for y {} {}", name_, cotangent.dtype(),
         cotangent.shape(), y.dtype(), y.shape());
  const Tensor one = cotangent.defined() ? cotangent : full(y.shape(), 1.0, y.dtype());
  backward({&y, 1}, {&one, 1}, keep);
}

void Transform::backward(std::span<const Tensor> y, std::span<const Tensor> cotangents, bool keep) {
  check_argument_lives();
  next_ = 0;
  gradients_.assign(watched_.size(), Tensor());
  TapeState* const tape = this->tape();
  std::vector<Seed> seeds;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (tape && cotangents[i].defined() && living_tape(Access::link(y[i])) == tape)
      seeds.push_back({Access::link(y[i]).value, cotangents[i]});
  if (!seeds.empty()) {
    // On a tape that others use too, the derivative is itself recorded, and what lies outside f is not walked.
    const bool shared = tape != own_;
    std::vector<Tensor> found = gradients_of(*tape, seeds, targets(), {shared, shared || keep, shared});
    auto next = found.begin();
    for (std::size_t i = 0; i < watched_.size(); ++i)
      if (Access::link(watched_[i]).tape) gradients_[i] = std::move(*next++);
  }
  for (std::size_t i = 0; i < watched_.size(); ++i)
    if (is_float(watched_[i].dtype()) && !gradients_[i].defined())
      gradients_[i] = zeros(watched_[i].shape(), watched_[i].dtype());
}

Tensor Transform::forward(const Tensor& y, std::span<const Tensor> tangents) {
  if (!y.defined()) fail("{}: f must return a value; got an empty handle", name_);
  if (!is_float(y.dtype())) fail("{}: f must return f32 or f64; got {} {}", name_, y.dtype(), y.shape());
  check_argument_lives();
  TapeState* const tape = this->tape();
  Tensor along;
  if (tape && living_tape(Access::link(y)) == tape) {
    // The gradient is linear in u, so any u will do; what counts is how it depends on u.
    const Tensor u = tape->add_leaf(zeros(y.shape(), y.dtype()));
    std::vector<Seed> seeds{{Access::link(y).value, u}};
    const std::vector<Tensor> gradients = gradients_of(*tape, seeds, targets(), {true, true, true});
    std::vector<Seed> seconds;
    auto next = gradients.begin();
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      if (!Access::link(watched_[i]).tape) continue;
      const Tensor& gradient = *next++;
      if (gradient.defined() && living_tape(Access::link(gradient)) == tape)
        seconds.push_back({Access::link(gradient).value, tangents[i]});
    }
    const bool shared = tape != own_;
    Value* const target = Access::link(u).value;
    if (!seconds.empty()) along = gradients_of(*tape, seconds, {&target, 1}, {true, shared, shared})[0];
  }
  return along.defined() ? along : zeros(y.shape(), y.dtype());
}

Tensor Transform::next_gradient() { return gradients_[next_++]; }

Tensor Transform::leave(const Tensor& y) const { return y.recorded() ? y : y.detach(); }

}  // namespace capstan::detail
