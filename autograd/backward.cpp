// The one backward loop: from the end of the tape to its start, each node once.
#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/call_state.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/memory_label.h>
#include <capstan/autograd/node.h>

#include <algorithm>

namespace capstan::detail {

namespace {

/// Cotangents under way: a slot each, reused as soon as their node has run. A chain never holds more than two.
class Slots {
 public:
  Slots(TapeState& tape, bool recorded)
      : tape_(tape),
        recorded_(recorded),
        entries_(std::exchange(tape.slots, {})),
        free_(std::exchange(tape.free_slots, {})) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    for (Slot& entry : entries_)
      if (entry.value) take(entry.value) = Tensor();
    tape_.slots = std::move(entries_);
    tape_.free_slots = std::move(free_);
  }

  void add(Value* value, Tensor&& cotangent) {
    if (value->slot == no_slot) {
      value->slot = acquire();
      Slot& entry = entries_[value->slot - 1];
      entry.value = value;
      entry.cotangent = std::move(cotangent);
      return;
    }
    Tensor& sum = entries_[value->slot - 1].cotangent;
    if (recorded_) {
      sum = sum_of(sum, cotangent);
    } else if (exclusively_owned(sum)) {
      add_in_place(sum, cotangent);
    } else if (exclusively_owned(cotangent)) {
      add_in_place(cotangent, sum);
      sum = std::move(cotangent);
    } else {
      sum = sum_of(sum, cotangent);
    }
  }

  /// What was gathered, for a rule to add to.
  Tensor take_sum(Value* value) { return value->slot == no_slot ? Tensor() : std::move(take(value)); }

  const Tensor& look(const Value* value) const { return entries_[value->slot - 1].cotangent; }

  /// Frees the slot; what it holds is to be moved out at once.
  Tensor& take(Value* value) {
    Slot& entry = entries_[value->slot - 1];
    free_.push_back(value->slot);
    value->slot = no_slot;
    entry.value = nullptr;
    return entry.cotangent;
  }

 private:
  static Tensor sum_of(const Tensor& a, const Tensor& b) {
    const Tensor terms[] = {a, b};
    return accumulate(terms);
  }
  std::uint32_t acquire() {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.reserve(entries_.capacity());  // so that the destructor needs no memory
      return static_cast<std::uint32_t>(entries_.size());
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  TapeState& tape_;
  bool recorded_;
  std::vector<Slot> entries_;
  std::vector<std::uint32_t> free_;
};

/// Marks what leads from a target to later nodes, so that the walk computes nothing else.
void mark_descendants(TapeState& tape, std::span<Value* const> targets, std::uint32_t from, std::uint32_t to,
                      std::uint32_t run) {
  for (Value* target : targets) target->mark = run;
  for (std::uint32_t position = from; position <= to; ++position) {
    Node* node = tape.nodes[position];
    bool leads = false;
    for (std::uint32_t i = 0; i < node->inputs && !leads; ++i) {
      const Value* value = node->input_values()[i];
      leads = !value->constant && value->mark == run;
    }
    if (!leads) continue;
    Value* value = node->first_output();
    for (int i = 0; i < node->outputs; ++i, value = value->next())
      if (!value->constant) value->mark = run;
  }
}

void check_gradient(const Node& node, int input, const Value& value, const Tensor& gradient) {
  bool same = gradient.dtype() == value.dtype && gradient.rank() == value.rank;
  for (int i = 0; same && i < value.rank; ++i) same = gradient.shape()[i] == value.sizes()[i];
  if (!same)
    fail("{}: its rule must give a gradient of {} {} for input {}; got {} {}", node.info->name, value.dtype,
         value.shape(), input, gradient.dtype(), gradient.shape());
}

/// Runs one node's rule and adds what it gives to the cotangents of its inputs.
void run_rule(TapeState& tape, Node* node, std::uint32_t run, bool recorded, bool consumes, Slots& slots) {
  const MemoryLabel label(node->info->name, true);
  const auto take_sum = [&](Value* value) { return slots.take_sum(value); };
  Call::State state(tape, node, run, recorded, consumes, take_sum);
  Value* value = node->first_output();
  state.douts.reserve(node->outputs);
  for (int i = 0; i < node->outputs; ++i, value = value->next()) {
    if (value->slot == no_slot) {
      state.douts.emplace_back();
      continue;
    }
    state.given |= std::uint64_t{1} << i;
    if (value->target)
      state.douts.emplace_back(slots.look(value));
    else
      state.douts.emplace_back(std::move(slots.take(value)));
  }
  const int inputs = static_cast<int>(node->inputs);
  bool any = false;
  for (int i = 0; i < inputs && !any; ++i) any = state.wants(i);
  if (!any) return;

  const Call call(state);
  Tensors gradients = node->info->has_kernel && !recorded ? node->op()->vjp_kernel(call) : node->op()->vjp(call);
  if (gradients.size() != inputs)
    fail("{}: its rule must give one gradient for each of {} inputs; got {}", node->info->name, inputs,
         gradients.size());
  state.douts.clear();  // so that a gradient that is the cotangent itself can be added to in place
  for (int i = 0; i < inputs; ++i) {
    Value* input = node->input_values()[i];
    if (!gradients[i].defined() || !state.wants(i)) continue;
    check_gradient(*node, i, *input, gradients[i]);
    slots.add(input, std::move(gradients[i]));
  }
}

}  // namespace

void run_backward(TapeState& tape, std::span<Seed> seeds, std::span<Value* const> targets, BackwardRun options,
                  FunctionRef<void(std::size_t, Tensor&&)> deliver) {
  const auto [only_targets, keep, create_graph] = options;
  if (tape.running && !only_targets)
    fail(
        "backward: a rule must not run backward on the tape that is running it; use grad() or vjp(), or a Tape of its "
        "own");
  struct Finish {
    TapeState& tape;
    bool was_running, consumes;
    Small<Value*, 16> made_targets;
    ~Finish() {
      for (Value* value : made_targets) value->target = false;
      tape.running = was_running;
      if (consumes) {
        tape.reset();
        tape.consumed = true;
      }
    }
  } finish{tape, tape.running, !keep, {}};
  for (Value* target : targets) {
    if (!target->target) finish.made_targets.push_back(target);
    target->target = true;
  }
  tape.running = true;
  if (finish.consumes) tape.end_generation();  // its tensors are constants from here on

  Slots slots(tape, create_graph);
  std::uint32_t first = 0, last = 0, run = 0;
  for (Seed& seed : seeds) last = std::max(last, seed.value->node);
  if (only_targets) {
    run = ++tape.runs;
    first = last + 1;
    for (const Value* target : targets) first = std::min(first, target->node);
    mark_descendants(tape, targets, first, last, run);
  }
  for (Seed& seed : seeds) {
    // A recorded cotangent would record the rules' own ops, though nobody asked for that.
    if (!create_graph) Access::set_link(seed.cotangent, {});
    if (run == 0 || seed.value->mark == run) slots.add(seed.value, std::move(seed.cotangent));
  }

  if (finish.consumes)
    while (tape.nodes.size() > std::size_t{last} + 1) tape.free_last_node();
  for (std::uint32_t position = last + 1; position-- > first;) {
    Node* node = tape.nodes[position];
    bool reached = false;
    Value* value = node->first_output();
    for (int i = 0; i < node->outputs; ++i, value = value->next()) reached = reached || value->slot != no_slot;
    if (reached && node->info) run_rule(tape, node, run, create_graph, finish.consumes, slots);
    if (finish.consumes) tape.free_last_node();
  }

  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i]->slot == no_slot) continue;
    Tensor& gradient = slots.take(targets[i]);
    if (!create_graph && !gradient.contiguous()) gradient = gradient.dense();
    if (!create_graph) Access::set_link(gradient, {});
    deliver(i, std::move(gradient));
  }
}

}  // namespace capstan::detail
