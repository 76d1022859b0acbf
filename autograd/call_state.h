// What stands behind a Call while its rule runs. Internal to autograd/*.cpp.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/op.h>

#include <cstring>
#include <memory>
#include <vector>

namespace capstan {

/// Tensors are handed to rules without touching their reference counts: each is put together in place from what the tape
/// holds, and never destroyed.
struct Call::State {
  struct Borrowed {
    const detail::Value* value;
    alignas(Tensor) std::byte tensor[sizeof(Tensor)];
    const Tensor& get() const { return *reinterpret_cast<const Tensor*>(tensor); }
  };

  detail::TapeState& tape;
  detail::Node* node;
  Reads reads;
  std::uint32_t run;        // 0: every recorded input is wanted; else only those with this mark
  bool recorded;            // the rule's own ops are recorded
  bool consumes;            // no rule will run a second time
  FunctionRef<Tensor(detail::Value*)> take_sum;
  std::uint64_t given = 0;  // outputs that have a cotangent
  Tensors douts;
  int lent = 0;
  Borrowed inside[6];
  std::vector<std::unique_ptr<Borrowed>> beyond;

  State(detail::TapeState& tape_, detail::Node* node_, std::uint32_t run_, bool recorded_, bool consumes_,
        FunctionRef<Tensor(detail::Value*)> take_sum_)
      : tape(tape_), node(node_), run(run_), recorded(recorded_), consumes(consumes_), take_sum(take_sum_) {
    std::uint64_t wanted = 0;
    for (int i = 0; i < static_cast<int>(node->inputs) && i < 64; ++i)
      if (!node->input_values()[i]->constant) wanted |= std::uint64_t{1} << i;
    reads = node->op()->reads(Wanted(wanted));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool wants(int i) const {
    const detail::Value* value = node->input_values()[i];
    return !value->constant && (run == 0 || value->mark == run);
  }

  detail::Value* output(int i) const {
    detail::Value* value = node->first_output();
    for (; i > 0; --i) value = value->next();
    return value;
  }

  const Tensor& borrow(detail::Value* value) {
    for (int i = 0; i < lent; ++i)
      if (inside[i].value == value) return inside[i].get();
    for (const auto& entry : beyond)
      if (entry->value == value) return entry->get();
    Borrowed* entry = lent < 6 ? &inside[lent++] : beyond.emplace_back(std::make_unique<Borrowed>()).get();
    entry->value = value;
    const detail::Link link = recorded && !value->constant ? tape.link_to(value) : detail::Link{};
    return *detail::Access::construct(entry->tensor, value->saved, value->dtype, link, value->sizes(), value->strides(),
                                      int{value->rank}, value->offset);
  }

  Tensor zeros(const detail::Value* value) const {
    Storage* storage = Storage::create(sizeof(double));
    std::memset(storage->data(), 0, sizeof(double));
    return detail::Access::make(StorageHandle::adopt(storage), Layout(Shape{}).broadcast_to(value->shape()),
                                value->dtype);
  }
};

}  // namespace capstan
