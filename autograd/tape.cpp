#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/tape.h>

namespace capstan {

namespace {

/// The cotangent of a root: given, or 1 for a scalar.
Tensor cotangent_of(const Tensor& y, const Tensor& given) {
  if (given.defined()) {
    if (given.shape() != y.shape() || given.dtype() != y.dtype())
      fail("backward: the cotangent must have y's shape and dtype; got {} {} for y {} {}", given.dtype(), given.shape(),
           y.dtype(), y.shape());
    return given;
  }
  if (y.elements() != 1)
    fail("backward: y must be a scalar or come with a cotangent; got {}; reduce it with sum() or mean()", y.shape());
  return full(y.shape(), 1.0, y.dtype());
}

/// The tape's own value behind y; an Error that says why there is none.
detail::Value* value_of(const Tensor& y, const detail::TapeState& tape) {
  if (!y.defined()) fail("backward: y must hold a value; got an empty handle; assign a tensor to it first");
  const detail::Link& link = detail::Access::link(y);
  const detail::TapeState* living = detail::living_tape(link);
  if (living == &tape) return link.value;
  if (living)
    fail("backward: y must be recorded on this tape; got a tensor of another tape; call backward on that one");
  if (!link.tape) fail("backward: y must be recorded; got a constant; compute it from a tensor that watch() returned");
  if (tape.consumed)
    fail(
        "backward: the tape must still hold y; got a tape that an earlier backward consumed; pass {{.keep = true}} to "
        "that one");
  fail(
      "backward: y must be recorded on a living tape; got a tensor whose tape is gone; keep the Tape alive until "
      "backward");
}

}  // namespace

Tape::Tape() : state_(detail::TapeState::acquire(false)) {}
Tape::~Tape() { state_->release(); }

Tensor Tape::watch(const Tensor& x) {
  if (!x.defined()) fail("watch: x must hold a value; got an empty handle; assign a tensor to it first");
  if (!is_float(x.dtype()))
    fail("watch: x must be f32 or f64 to have a gradient; got {} {}; cast() it first", x.dtype(), x.shape());
  const detail::TapeState* living = detail::living_tape(detail::Access::link(x));
  if (living && living != state_)
    fail(
        "watch: x must not be recorded on another living tape; got such a tensor of shape {}; detach() it, or use "
        "grad() or vjp()",
        x.shape());
  Tensor leaf = living ? x : state_->add_leaf(x);
  state_->add_watch(leaf);
  return leaf;
}

Gradients Tape::backward(const Tensor& y, BackwardOptions options) { return backward(y, Tensor(), options); }
Gradients Tape::backward(const Tensor& y, const Tensor& cotangent, BackwardOptions options) {
  detail::Value* value = value_of(y, *state_);
  detail::Seed seed{value, cotangent_of(y, cotangent)};
  return run({&seed, 1}, options);
}
Gradients Tape::backward(std::initializer_list<Root> roots, BackwardOptions options) {
  return backward(std::span<const Root>(roots.begin(), roots.size()), options);
}

Gradients Tape::backward(std::span<const Root> roots, BackwardOptions options) {
  if (roots.empty()) fail("backward: at least one root is needed; got none");
  Small<detail::Seed, 2> seeds;
  for (const Root& root : roots) {
    detail::Value* value = value_of(root.y, *state_);
    seeds.push_back(detail::Seed{value, cotangent_of(root.y, root.cotangent)});
  }
  return run({seeds.begin(), seeds.end()}, options);
}

Gradients Tape::run(std::span<detail::Seed> seeds, BackwardOptions options) {
  Small<detail::Value*, 16> targets;
  Gradients result;
  result.entries_.reserve(static_cast<int>(state_->watches.size()));
  for (const detail::Watch& watch : state_->watches) {
    targets.push_back(watch.value);
    result.entries_.emplace_back().link = watch.link;
  }
  detail::run_backward(
      *state_, seeds, {targets.begin(), targets.end()},
      {.keep = options.keep || options.create_graph, .create_graph = options.create_graph},
      [&](std::size_t i, Tensor&& gradient) { result.entries_[static_cast<int>(i)].gradient = std::move(gradient); });
  return result;
}

Index Tape::size() const { return static_cast<Index>(state_->nodes.size()); }

Index Tape::saved_bytes() const {
  Index bytes = 0;
  auto count = [&](const detail::Value* value) {
    if (value->saved) bytes += static_cast<Index>(value->saved->bytes());
  };
  for (std::size_t position = 0; position < state_->nodes.size(); ++position) {
    detail::Node* node = state_->nodes[position];
    detail::Value* value = node->first_output();
    for (int i = 0; i < node->outputs; ++i, value = value->next()) count(value);
  }
  for (const detail::Value* value : state_->constants) count(value);
  return bytes;
}

std::vector<std::string_view> Tape::names() const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < state_->nodes.size(); ++i) {
    const detail::OpInfo* info = state_->nodes[i]->info;
    names.push_back(info ? info->name : std::string_view{});
  }
  return names;
}

// ---- gradients --------------------------------------------------------------------------------------------------------

const Gradients::Entry& Gradients::find(const Tensor& x) const {
  const detail::Link& link = detail::Access::link(x);
  for (const Entry& entry : entries_)
    if (entry.link == link) return entry;
  fail(
      "gradients: x must have been watched on the tape before backward; got a tensor of shape {} that was not; pass "
      "the tensor that watch() returned",
      x.shape());
}

Tensor Gradients::of(const Tensor& x) const {
  const Entry& entry = find(x);
  return entry.gradient.defined() ? entry.gradient : zeros(x.shape(), x.dtype());
}

bool Gradients::reached(const Tensor& x) const { return find(x).gradient.defined(); }

int Gradients::unreached() const {
  int count = 0;
  for (const Entry& entry : entries_) count += entry.gradient.defined() ? 0 : 1;
  return count;
}

// ---- paths ------------------------------------------------------------------------------------------------------------

std::string Path::str() const {
  std::string text = parent ? parent->str() : std::string();
  if (name.empty() && index < 0) return text;
  if (!text.empty()) text += '.';
  text += name.empty() ? fmt::format("{}", index) : std::string(name);
  return text;
}

}  // namespace capstan
