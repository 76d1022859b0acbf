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
    alignas(Tensor) std::byte tensor[sizeof(Tensor)];
    const Tensor& get() const { return *reinterpret_cast<const Tensor*>(tensor); }
  };

  detail::TapeState& tape;
  detail::Node* node;
  Reads reads;
  std::uint32_t run;  // 0: every recorded input is wanted; else only those with this mark
  bool recorded;      // the rule's own ops are recorded
  bool consumes;      // no rule will run a second time
  FunctionRef<Tensor(detail::Value*)> take_sum;
  std::uint64_t given = 0;  // outputs that have a cotangent
  Tensors douts;
  static constexpr std::uint32_t room = 6;
  std::uint32_t lent = 0;  // which of those inside, a bit each
  Borrowed inside[room];
  std::vector<std::pair<std::uint32_t, std::unique_ptr<Borrowed>>> beyond;

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

  Tensor zeros(const detail::Value* value) const {
    Storage* storage = Storage::create(sizeof(double));
    std::memset(storage->data(), 0, sizeof(double));
    return detail::Access::make(StorageHandle::adopt(storage), Layout(Shape{}).broadcast_to(value->shape()),
                                value->dtype);
  }

  const Tensor& borrow_input(int i) { return borrow(static_cast<std::uint32_t>(i), node->input_values()[i]); }
  const Tensor& borrow_output(int i) { return borrow(node->inputs + static_cast<std::uint32_t>(i), output(i)); }

 private:
  /// `place`: among the node's inputs and outputs.
  const Tensor& borrow(std::uint32_t place, detail::Value* value) {
    Borrowed* entry = nullptr;
    if (place < room) {
      entry = &inside[place];
      if (lent >> place & 1) return entry->get();
      lent |= std::uint32_t{1} << place;
    } else {
      for (const auto& [other, tensor] : beyond)
        if (other == place) return tensor->get();
      entry = beyond.emplace_back(place, std::make_unique<Borrowed>()).second.get();
    }
    const detail::Link link = recorded && !value->constant ? tape.link_to(value) : detail::Link{};
    return *detail::Access::construct(entry->tensor, value->saved, value->dtype, link, value->sizes(), value->strides(),
                                      int{value->rank}, value->offset);
  }
};

}  // namespace capstan
