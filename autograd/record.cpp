// `record`: runs an op and appends it to its inputs' tape; and what a rule sees of the call (Call).
#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/call_state.h>
#include <capstan/autograd/format.h>
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

Tensors evaluate(const Op& op, const OpInfo& info, Inputs in) {
  const Types types = op.infer(in);
  check_count(info, types.size());
  Tensors outputs;
  if (info.has_view) {
    if (const std::optional<Layout> layout = op.view(in)) {
      outputs.push_back(Access::alias(in[0], *layout));
      return outputs;
    }
  }
  Small<View, 4> views;
  outputs.reserve(types.size());
  for (const Type& type : types) {
    Storage* storage = Storage::create(bytes_for(type.shape, type.dtype));
    outputs.push_back(Access::make(StorageHandle::adopt(storage), Layout(type.shape), type.dtype));
  }
  for (const Tensor& x : outputs) views.push_back({Access::storage(x)->data(), &x.layout(), x.dtype()});
  op.eval(in, Outputs(views.begin(), views.size()));
  return outputs;
}

void append(TapeState& tape, const Op& op, const OpInfo& info, Inputs in, std::uint64_t wanted, Tensors& outputs) {
  const Reads reads = op.reads(Wanted(wanted));
  const auto position = static_cast<std::uint32_t>(tape.nodes.size());
  const auto inputs = static_cast<std::size_t>(in.size());
  std::size_t bytes = sizeof(Node) + Node::op_bytes(&info) + inputs * sizeof(Value*);
  for (const Tensor& x : outputs) bytes += Value::bytes(x.rank());

  auto* node = ::new (tape.arena.allocate(bytes)) Node;
  node->info = &info;
  node->inputs = static_cast<std::uint32_t>(in.size());
  node->outputs = static_cast<std::uint16_t>(outputs.size());
  for (int i = 0; i < in.size(); ++i) {
    const bool read = i < 64 && (reads.inputs >> i & 1) != 0;
    const Link& link = Access::link(in[i]);
    Value* value = link.value;
    if (living_tape(link) == nullptr)
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
  for (int i = 0; i < outputs.size(); ++i) {
    tape.add_value(value, outputs[i].layout(), outputs[i].dtype(), position);
    value->constant = !is_float(outputs[i].dtype());
    if (reads.outputs >> i & 1) value->save(outputs[i]);
    if (!value->constant) Access::set_link(outputs[i], tape.link_to(value));
    value = value->next();
  }
}

}  // namespace

Tensors record(const Op& op, const OpInfo& info, Inputs in, Tensors* computed) {
  if (computed) check_count(info, computed->size());
  TapeState* tape = nullptr;
  std::uint64_t wanted = 0;
  bool apart = false;  // inputs stand on several tapes, of which all but the oldest are transforms' own
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
    if (i < 64) wanted |= std::uint64_t{1} << i;
  }
  Tensors outputs = computed ? std::move(*computed) : evaluate(op, info, in);
  if (!tape) return outputs;
  bool any_float = false;
  for (const Tensor& x : outputs) any_float = any_float || is_float(x.dtype());
  if (!any_float) return outputs;
  for (int i = 0; apart && i < in.size(); ++i) {
    TapeState* other = living_tape(Access::link(in[i]));
    if (other && other != tape) tape = join(tape, other, info.name);
  }
  append(*tape, op, info, in, wanted, outputs);
  return outputs;
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
  if (i < 0 || i >= inputs() || i >= 64 || (state_->reads.inputs >> i & 1) == 0) undeclared(*state_, "in", i);
  return state_->borrow(state_->node->input_values()[i]);
}

const Tensor& Call::out(int i) const {
  if (i < 0 || i >= state_->node->outputs || (state_->reads.outputs >> i & 1) == 0) undeclared(*state_, "out", i);
  return state_->borrow(state_->output(i));
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

Tensor Call::take_in(int i) const { return take(*state_, state_->node->input_values()[i], in(i)); }
Tensor Call::take_out(int i) const { return take(*state_, state_->output(i), out(i)); }

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

}  // namespace capstan
