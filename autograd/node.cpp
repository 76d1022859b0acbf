#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/pool.h>

#include <algorithm>
#include <mutex>

namespace capstan::detail {

// ---- arena ----------------------------------------------------------------------------------------------------------

void Arena::grow(std::size_t bytes) {
  constexpr std::size_t first_chunk = 4096, largest_chunk = 8 * 1024 * 1024;  // for which the pool asks for huge pages
  const std::size_t wanted = chunks_.empty() ? first_chunk : std::min(chunks_.back().bytes * 2, largest_chunk);
  chunks_.reserve(chunks_.size() + 1);
  const std::size_t size = std::max(wanted, bytes);
  chunks_.push_back({static_cast<std::byte*>(pool_allocate(size)), size});
  at_ = chunks_.back().memory;
  end_ = at_ + size;
}

void Arena::clear() {
  for (const Chunk& chunk : chunks_) pool_deallocate(chunk.memory, chunk.bytes);
  chunks_.clear();
  at_ = end_ = nullptr;
}

void Arena::absorb(Arena& other) {
  chunks_.insert(chunks_.begin(), other.chunks_.begin(), other.chunks_.end());
  other.chunks_.clear();
  other.at_ = other.end_ = nullptr;
}

void NodeList::enter_piece(std::size_t piece, std::size_t filled) {
  piece_ = piece;
  piece_begin_ = pieces_[piece];
  end_ = piece_begin_ + filled;
  piece_end_ = piece_begin_ + length_of(piece);
}

void NodeList::next_piece() {
  const std::size_t next = pieces_.empty() ? 0 : piece_ + 1;
  if (next == pieces_.size()) {
    pieces_.reserve(next + 1);
    pieces_.push_back(static_cast<Node**>(pool_allocate(length_of(next) * sizeof(Node*))));
  }
  enter_piece(next, 0);
}

void NodeList::clear() {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece)
    pool_deallocate(pieces_[piece], length_of(piece) * sizeof(Node*));
  pieces_.clear();
  size_ = piece_ = 0;
  piece_begin_ = end_ = piece_end_ = nullptr;
}

// ---- values ---------------------------------------------------------------------------------------------------------

bool Value::describes(const Tensor& x) const {
  if (dtype != x.dtype() || rank != x.rank() || offset != x.layout().offset()) return false;
  for (int i = 0; i < rank; ++i)
    if (sizes()[i] != x.shape()[i] || strides()[i] != x.layout().stride(i)) return false;
  return true;
}

Value* TapeState::add_value(void* where, const Layout& layout, DType dtype, std::uint32_t node) {
  auto* value = ::new (where) Value;
  value->offset = layout.offset();
  value->node = node;
  value->dtype = dtype;
  value->rank = static_cast<std::uint8_t>(layout.rank());
  copy_axes(layout.shape().begin(), value->rank, value->sizes());
  copy_axes(layout.strides(), value->rank, value->strides());
  return value;
}

Value* TapeState::constant(const Tensor& x, bool read, std::uint32_t node) {
  Storage* storage = Access::storage(x);
  // A constant that rules read again and again (a weight that is not trained) shares one record: two threads that touch
  // one reference count at every op slow each other tenfold.
  Value*& cached = cached_constants[reinterpret_cast<std::uintptr_t>(storage) / 64 % cache_size];
  if (read && cached && cached->saved == storage && cached->describes(x)) return cached;
  Value* value = add_value(arena.allocate(Value::bytes(x.rank())), x.layout(), x.dtype(), node);
  value->constant = true;
  if (read) {
    constants.push_back(value);
    value->save(x);
    cached = value;
    any_cached = true;
  }
  return value;
}

Tensor TapeState::add_leaf(const Tensor& x) {
  const auto position = static_cast<std::uint32_t>(nodes.size());
  auto* node = ::new (arena.allocate(sizeof(Node) + Value::bytes(x.rank()))) Node;
  node->outputs = 1;
  Value* value = add_value(node->first_output(), x.layout(), x.dtype(), position);
  nodes.push_back(node);
  consumed = false;
  Tensor leaf = x;
  Access::set_link(leaf, link_to(value));
  return leaf;
}

void TapeState::add_watch(const Tensor& x) {
  const Link& link = Access::link(x);
  if (link.value->target) return;
  watches.push_back({link.value, link});
  link.value->target = true;
}

// ---- life of a tape -------------------------------------------------------------------------------------------------

namespace {
struct Recycled {
  std::mutex mutex;
  std::vector<TapeState*> states;
  std::uint64_t born = 0;
  std::unique_lock<std::mutex> lock() {
    return single_threaded() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
  }
};
// Never destroyed: a tensor in a static variable may still ask whether its tape lives.
Recycled& recycled() {
  static auto* instance = new Recycled;
  return *instance;
}
}  // namespace

TapeState* TapeState::acquire(bool of_transform) {
  Recycled& pool = recycled();
  TapeState* state = nullptr;
  {
    const std::unique_lock lock = pool.lock();
    if (pool.states.empty()) {
      state = new TapeState;
    } else {
      state = pool.states.back();
      pool.states.pop_back();
    }
    state->born = ++pool.born;
  }
  state->of_transform = of_transform;
  state->consumed = state->running = state->orphan = false;
  return state;
}

void TapeState::release() {
  if (absorbed_by && absorbed_by->generation.load(std::memory_order_acquire) == absorbed_generation) {
    orphan = true;
    return;
  }
  reset();  // though its list may be empty: an older tape may have taken its nodes
  const std::unique_lock lock = recycled().lock();
  recycled().states.push_back(this);
}

void TapeState::free_last_node() {
  const auto position = static_cast<std::uint32_t>(nodes.size() - 1);
  Node* node = nodes.back();
  nodes.pop_back();
  Value* value = node->first_output();
  for (int i = 0; i < node->outputs; ++i, value = value->next()) value->drop();
  for (; !constants.empty() && constants.back()->node >= position; constants.pop_back()) constants.back()->drop();
  if (node->info && node->info->destroy) node->info->destroy(node->op());
}

void TapeState::forget_cached() {
  if (!std::exchange(any_cached, false)) return;
  std::fill(std::begin(cached_constants), std::end(cached_constants), nullptr);
}

void TapeState::reset() {
  end_generation();
  if (arena.empty() && absorbed_by == nullptr && absorbed.empty()) return;  // nothing was recorded since the last time
  while (!nodes.empty()) free_last_node();
  nodes.clear();
  constants.clear();
  watches.clear();
  forget_cached();
  arena.clear();
  absorbed_by = nullptr;
  runs = 0;
  for (TapeState* other : std::exchange(absorbed, {})) {
    other->absorbed_by = nullptr;
    if (other->orphan)
      other->release();
    else
      other->reset();
  }
}

TapeState* require_joinable(TapeState* a, TapeState* b, std::string_view op) {
  TapeState* older = a->born < b->born ? a : b;
  const TapeState* younger = older == a ? b : a;
  if (!younger->of_transform || younger->running)
    fail(
        "{}: inputs must be recorded on one tape; got two unrelated tapes; detach() one input, or use grad() or vjp() "
        "inside",
        op);
  return older;
}

TapeState* join(TapeState* a, TapeState* b, std::string_view op) {
  TapeState* older = require_joinable(a, b, op);
  TapeState* younger = older == a ? b : a;
  const auto shift = static_cast<std::uint32_t>(older->nodes.size());
  for (std::size_t position = 0; position < younger->nodes.size(); ++position) {
    Node* node = younger->nodes[position];
    Value* value = node->first_output();
    for (int i = 0; i < node->outputs; ++i, value = value->next()) value->node += shift;
    older->nodes.push_back(node);
  }
  for (Value* value : younger->constants) {
    value->node += shift;
    older->constants.push_back(value);
  }
  older->arena.absorb(younger->arena);
  older->runs = std::max(older->runs, younger->runs);
  older->absorbed.push_back(younger);
  younger->nodes.clear();
  younger->constants.clear();
  younger->forget_cached();
  younger->absorbed_by = older;
  younger->absorbed_generation = older->generation.load(std::memory_order_relaxed);
  return older;
}

}  // namespace capstan::detail
