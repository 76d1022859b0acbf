// `record`: runs an op and appends it to its inputs' tape; and what a rule sees of the call (Call).
#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/call_state.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/memory_label.h>
#include <capstan/autograd/node.h>

namespace capstan {

// ---- defaults of an op ------------------------------------------------------------------------------------------------

void Op::eval(Inputs, Outputs) const { throw Error("op: an op must override eval or view; got neither"); }
std::optional<Layout> Op::view(Inputs) const { return std::nullopt; }
Reads Op::reads(Wanted) const { return Reads::none(); }
Tensors Op::vjp_kernel(const Call& call) const { return vjp(call); }

Tensors no_gradient(const Call& call, const char*) {
  Tensors none;
  none.resize(call.inputs());
  return none;
}

// ---- record ---------------------------------------------------------------------------------------------------------

namespace detail {

namespace {

void check_count(const OpInfo& info, int outputs) {
  if (outputs > 64) fail("{}: an op has at most 64 outputs; got {}", info.name, outputs);
}

/// The outputs of several.
Tensors evaluate(const Op& op, Inputs in, const Types& types) {
  Tensors outputs;
  Small<View, 4> views;
  outputs.reserve(types.size());
  for (const Type& type : types) outputs.emplace_made([&] { return Access::create(type.shape, type.dtype); });
  for (const Tensor& x : outputs) views.push_back({Access::storage(x)->data(), &x.layout(), x.dtype()});
  op.eval(in, Outputs(views.begin(), views.size()));
  return outputs;
}

/// The tape that a call will be recorded on, and the inputs that stand on it.
struct Place {
  TapeState* tape = nullptr;
  std::uint64_t wanted = 0;
  std::uint64_t generation = 0;  // of the tape
  bool apart = false;            // some stand on tapes of transforms, to be joined to the oldest, or joined before

  Place(const OpInfo& info, Inputs in) {
    for (int i = 0; i < in.size(); ++i) {
      if (!in[i].defined())
        fail("{}: inputs must hold values; got an empty handle as input {}; assign a tensor to it first", info.name, i);
      TapeState* other = living_tape(Access::link(in[i]));
      if (!other) continue;
      if (tape && tape != other) {
        tape = require_joinable(tape, other, info.name);
        apart = true;
      }
      if (!tape) tape = other;
      if (Access::link(in[i]).tape != tape) apart = true;
      if (i < 64) wanted |= std::uint64_t{1} << i;
    }
    if (tape) generation = tape->generation.load(std::memory_order_relaxed);
  }
  /// False if a user's infer or eval may have ended the tape, or joined it to another.
  bool holds() const {
    return !apart && !tape->absorbed_by && tape->generation.load(std::memory_order_relaxed) == generation;
  }
};

void append(TapeState& tape, const Op& op, const OpInfo& info, Inputs in, std::uint64_t wanted,
            std::span<Tensor> outputs) {
  const Reads reads = op.reads(Wanted(wanted));
  const auto position = static_cast<std::uint32_t>(tape.nodes.size());
  const auto inputs = static_cast<std::size_t>(in.size());
  const std::size_t op_words = (info.size + 7u) / 8u;
  std::size_t bytes = sizeof(Node) + op_words * 8 + inputs * sizeof(Value*);
  for (const Tensor& x : outputs) bytes += Value::bytes(x.rank());

  auto* node = ::new (tape.arena.allocate(bytes)) Node;
  node->info = &info;
  node->inputs = static_cast<std::uint32_t>(in.size());
  node->outputs = static_cast<std::uint16_t>(outputs.size());
  node->op_words = static_cast<std::uint16_t>(op_words);
  for (int i = 0; i < in.size(); ++i) {
    const bool read = (reads.inputs & Reads::bit(i)) != 0;
    const Link& link = Access::link(in[i]);
    Value* value = link.value;
    const bool lives = i < 64 ? Wanted(wanted)[i] : living_tape(link) != nullptr;
    if (!lives)
      value = tape.constant(in[i], read, position);
    else if (read && value->saved)
      value->several = true;
    else if (read)
      value->save(in[i]);
    node->input_values()[i] = value;
  }
  tape.nodes.push_back(node);
  try {
    info.copy_to(node->op(), op);
  } catch (...) {
    tape.nodes.pop_back();
    throw;
  }
  Value* value = node->first_output();
  int place = 0;
  for (Tensor& y : outputs) {
    tape.add_value(value, y.layout(), y.dtype(), position);
    value->constant = !is_float(y.dtype());
    if (reads.outputs >> place++ & 1) value->save(y);
    if (!value->constant) Access::set_link(y, tape.link_to(value));
    value = value->next();
  }
}

/// Records the call, if there is a tape for it and something to differentiate.
void record_at(const Place& before, const Op& op, const OpInfo& info, Inputs in, std::span<Tensor> outputs) {
  if (!before.tape) return;
  const Place place = before.holds() ? before : Place(info, in);
  if (!place.tape) return;
  bool any_float = false;
  for (const Tensor& y : outputs) any_float = any_float || is_float(y.dtype());
  if (!any_float) return;
  TapeState* tape = place.tape;
  for (int i = 0; place.apart && i < in.size(); ++i) {
    TapeState* other = living_tape(Access::link(in[i]));
    if (other && other != tape) tape = join(tape, other, info.name);
  }
  append(*tape, op, info, in, place.wanted, outputs);
}

Tensor record_view(const Place& place, const Op& op, const OpInfo& info, Inputs in, const Layout& layout) {
  Tensor y = Access::alias(in[0], layout);
  record_at(place, op, info, in, {&y, 1});
  return y;
}

Tensor record_evaluated(const Place& place, const Op& op, const OpInfo& info, Inputs in, const Type& type) {
  Tensor y = Access::create(type.shape, type.dtype);
  View view{Access::storage(y)->data(), &y.layout(), y.dtype()};
  op.eval(in, Outputs(&view, 1));
  record_at(place, op, info, in, {&y, 1});
  return y;
}

/// A call with one output, which is built where the caller wants it.
Tensor record_only(const Place& place, const Op& op, const OpInfo& info, Inputs in, const Type& type) {
  if (info.has_view) {
    if (const std::optional<Layout> layout = op.view(in)) return record_view(place, op, info, in, *layout);
  }
  return record_evaluated(place, op, info, in, type);
}

Tensors record_several(const Place& place, const Op& op, const OpInfo& info, Inputs in, const Types& types) {
  check_count(info, types.size());
  Tensors outputs = evaluate(op, in, types);
  record_at(place, op, info, in, {outputs.begin(), outputs.end()});
  return outputs;
}

}  // namespace

Tensors record(const Op& op, const OpInfo& info, Inputs in, Tensors* computed) {
  const Place place(info, in);
  if (computed) {
    check_count(info, computed->size());
    record_at(place, op, info, in, {computed->begin(), computed->end()});
    return std::move(*computed);
  }
  const MemoryLabel label(info.name, false);
  const Types types = op.infer(in);
  if (types.size() != 1) return record_several(place, op, info, in, types);
  return Tensors(record_only(place, op, info, in, types[0]));
}

Tensor record_first(const Op& op, const OpInfo& info, Inputs in) {
  const Place place(info, in);
  const MemoryLabel label(info.name, false);
  const Types types = op.infer(in);
  if (types.size() != 1) return std::move(record_several(place, op, info, in, types)[0]);
  return record_only(place, op, info, in, types[0]);
}

}  // namespace detail

// ---- call -----------------------------------------------------------------------------------------------------------

namespace {
[[noreturn]] void undeclared(const Call::State& state, const char* kind, int i) {
  fail("{}: its rule must declare what it reads; got a read of {} {}; add Reads::{}({}) to reads()",
       state.node->info->name, kind, i, kind, i);
}
}  // namespace

const Tensor& Call::in(int i) const {
  if ((state_->reads.inputs & Reads::bit(i)) == 0 || i >= inputs()) undeclared(*state_, "in", i);
  return state_->borrow_input(i);
}

const Tensor& Call::out(int i) const {
  if ((state_->reads.outputs & Reads::bit(i)) == 0 || i >= state_->node->outputs) undeclared(*state_, "out", i);
  return state_->borrow_output(i);
}

const Tensor& Call::dout(int i) const {
  Tensor& dy = state_->douts[i];
  if (!dy.defined()) dy = state_->zeros(state_->output(i));
  return dy;
}

Tensor Call::take_sum(int i) const {
  if (state_->recorded || !wants(i)) return {};
  return state_->take_sum(state_->node->input_values()[i]);
}

namespace {
Tensor take(const Call::State& state, detail::Value* value, const Tensor& x) {
  if (!state.consumes || value->constant || value->several || !detail::exclusively_owned(x)) return {};
  return detail::Access::make(StorageHandle::adopt(std::exchange(value->saved, nullptr)), x.layout(), x.dtype());
}
}  // namespace

// What was taken is no longer among what the rule may read.
Tensor Call::take_in(int i) const {
  Tensor x = take(*state_, state_->node->input_values()[i], in(i));
  if (x.defined()) state_->reads.inputs &= ~Reads::bit(i);
  return x;
}

Tensor Call::take_out(int i) const {
  Tensor x = take(*state_, state_->output(i), out(i));
  if (x.defined()) state_->reads.outputs &= ~Reads::bit(i);
  return x;
}

Tensor Call::take_dout(int i) const {
  Tensor& dy = state_->douts[i];
  if (state_->recorded || !dy.defined() || !detail::exclusively_owned(dy)) return {};
  return std::move(dy);
}

bool Call::has_dout(int i) const { return state_->given >> i & 1; }
bool Call::wants(int i) const { return state_->wants(i); }
int Call::inputs() const { return static_cast<int>(state_->node->inputs); }
Shape Call::in_shape(int i) const { return state_->node->input_values()[i]->shape(); }
DType Call::in_dtype(int i) const { return state_->node->input_values()[i]->dtype; }

Buffer Call::new_gradient(int i) const {
  const detail::Value* value = state_->node->input_values()[i];
  return detail::Access::create_buffer(value->sizes(), value->rank, value->dtype);
}

View Call::append_gradient(Tensors& gradients, int i) const {
  if (!wants(i)) {
    gradients.emplace_back();
    return {};
  }
  const detail::Value* value = state_->node->input_values()[i];
  const Tensor& x =
      gradients.emplace_made([&] { return detail::Access::create_tensor(value->sizes(), value->rank, value->dtype); });
  return {detail::Access::storage(x)->data(), &x.layout(), x.dtype()};
}

}  // namespace capstan
