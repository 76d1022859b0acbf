// The inside of a tape: values, nodes, and the arena that they lie in. Internal to autograd/*.cpp.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/op.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

namespace capstan::detail {

inline constexpr std::uint32_t no_slot = 0;

/// What the tape knows of one tensor: its type, and its storage if some rule reads it. Belongs to the node that made it
/// (or, for a constant, to the first node that used it). Sizes and strides follow it in memory.
struct Value {
  Storage* saved = nullptr;  // holds a count
  Index offset = 0;
  std::uint32_t node = 0;        // position of the owning node on the tape
  std::uint32_t slot = no_slot;  // where its cotangent gathers while backward runs
  std::uint32_t mark = 0;        // the backward run in which it leads to a target
  DType dtype = DType::f32;
  std::uint8_t rank = 0;
  bool constant : 1 = false;
  bool target : 1 = false;   // watched: its gradient is asked for
  bool several : 1 = false;  // more than one rule reads it

  Index* sizes() { return reinterpret_cast<Index*>(this + 1); }
  const Index* sizes() const { return reinterpret_cast<const Index*>(this + 1); }
  Index* strides() { return sizes() + rank; }
  const Index* strides() const { return sizes() + rank; }
  Shape shape() const { return Shape::trusted(sizes(), rank); }
  Layout layout() const { return Layout(shape(), strides(), offset); }
  static std::size_t bytes(int rank) { return sizeof(Value) + 2 * sizeof(Index) * static_cast<std::size_t>(rank); }
  Value* next() { return reinterpret_cast<Value*>(reinterpret_cast<std::byte*>(this) + bytes(rank)); }

  bool describes(const Tensor& x) const;
  void save(const Tensor& x) {
    saved = Access::storage(x);
    saved->retain();
  }
  void drop() {
    if (saved) saved->release();
    saved = nullptr;
  }
};

/// One recorded call. In memory: Node, the op, the input values' addresses, the output values. A watched leaf has no op.
struct Node {
  const OpInfo* info = nullptr;  // null: a leaf
  std::uint32_t inputs = 0;
  std::uint16_t outputs = 0;
  std::uint16_t op_words = 0;  // of 8 bytes

  Op* op() { return reinterpret_cast<Op*>(this + 1); }
  Value** input_values() { return reinterpret_cast<Value**>(reinterpret_cast<std::uint64_t*>(this + 1) + op_words); }
  Value* first_output() { return reinterpret_cast<Value*>(input_values() + inputs); }
};

/// Bump allocation in chunks from the pool; addresses stay put.
class Arena {
 public:
  ~Arena() { clear(); }
  void* allocate(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(end_ - at_)) grow(bytes);
    return std::exchange(at_, at_ + bytes);
  }
  bool empty() const { return chunks_.empty(); }
  void clear();
  /// Takes over another arena's chunks.
  void absorb(Arena& other);

 private:
  struct Chunk {
    std::byte* memory;
    std::size_t bytes;
  };
  void grow(std::size_t bytes);
  std::vector<Chunk> chunks_;
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
};

/// The nodes in order: pieces that stay put, each twice as long as the one before, so that no growth copies tens of
/// millions of addresses.
class NodeList {
 public:
  NodeList() = default;
  NodeList(const NodeList&) = delete;
  NodeList& operator=(const NodeList&) = delete;
  ~NodeList() { clear(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Node* operator[](std::size_t i) const {
    if (i + 1 == size_) return back();
    const auto piece = static_cast<std::size_t>(std::bit_width(i / first_piece + 1)) - 1;
    return pieces_[piece][i - first_piece * ((std::size_t{1} << piece) - 1)];
  }
  Node* back() const { return end_[-1]; }
  void push_back(Node* node) {
    if (end_ == piece_end_) next_piece();
    *end_++ = node;
    ++size_;
  }
  void pop_back() {
    --size_;
    if (--end_ == piece_begin_ && piece_ > 0) enter_piece(piece_ - 1, length_of(piece_ - 1));
  }
  void clear();

 private:
  static constexpr std::size_t first_piece = 2048;
  static std::size_t length_of(std::size_t piece) { return first_piece << piece; }
  void enter_piece(std::size_t piece, std::size_t filled);
  void next_piece();
  std::vector<Node**> pieces_;
  std::size_t size_ = 0;
  // The piece in which the list ends.
  std::size_t piece_ = 0;
  Node **piece_begin_ = nullptr, **end_ = nullptr, **piece_end_ = nullptr;
};

/// A watched value and the link that was handed out for it.
struct Watch {
  Value* value;
  Link link;
};

/// A cotangent under way to its value.
struct Slot {
  Value* value = nullptr;
  Tensor cotangent;
  Slot() noexcept {}
};

/// Everything a Tape owns. States are recycled and their memory is never given back, so that a link can always ask for
/// the generation.
struct TapeState {
  std::atomic<std::uint64_t> generation{1};
  std::uint64_t born = 0;
  bool consumed = false;      // the last use ended in a backward without .keep
  bool of_transform = false;  // may be absorbed by an older tape
  bool running = false;       // a backward is under way
  bool orphan = false;        // its owner is gone; the tape that absorbed it recycles it
  std::uint32_t runs = 0;     // numbers the marks
  TapeState* absorbed_by = nullptr;
  std::uint64_t absorbed_generation = 0;
  std::vector<TapeState*> absorbed;
  Arena arena;
  NodeList nodes;
  std::vector<Value*> constants;  // in order of first use
  std::vector<Watch> watches;
  // Where backward keeps its slots: here, so that it finds the memory of the last run.
  std::vector<Slot> slots;
  std::vector<std::uint32_t> free_slots;

  static constexpr std::size_t cache_size = 32;
  Value* cached_constants[cache_size] = {};
  bool any_cached = false;

  static TapeState* acquire(bool of_transform);
  void release();
  /// Turns all tensors that link here into constants. Only the tape's own thread writes.
  void end_generation() { generation.store(generation.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  /// Frees everything, and ends the generation.
  void reset();
  /// Destroys the node at the end of the list together with what it saved.
  void free_last_node();

  Value* add_value(void* where, const Layout& layout, DType dtype, std::uint32_t node);
  Value* constant(const Tensor& x, bool read, std::uint32_t node);
  void forget_cached();
  Tensor add_leaf(const Tensor& x);
  void add_watch(const Tensor& x);
  Link link_to(Value* value) { return {this, generation.load(std::memory_order_relaxed), value}; }
};

/// The tape that a link points into, if it still lives; follows absorptions.
inline TapeState* living_tape(const Link& link) {
  if (!link.tape || link.tape->generation.load(std::memory_order_acquire) != link.generation) return nullptr;
  TapeState* tape = link.tape;
  while (tape->absorbed_by) {
    if (tape->absorbed_by->generation.load(std::memory_order_acquire) != tape->absorbed_generation) return nullptr;
    tape = tape->absorbed_by;
  }
  return tape;
}

/// The older of two tapes, which may absorb the younger; an Error for two unrelated tapes.
TapeState* require_joinable(TapeState* a, TapeState* b, std::string_view op);
/// One tape for two: absorbs a transform's tape into an older one; an Error for two unrelated tapes.
TapeState* join(TapeState* a, TapeState* b, std::string_view op);

/// A cotangent for a value, and the outcome of a run.
struct Seed {
  Value* value;
  Tensor cotangent;
};

struct BackwardRun {
  bool only_targets = false;  // walks only what lies between the roots and the targets
  bool keep = false;
  bool create_graph = false;  // wants keep
};
/// The one backward loop. `deliver` gets the gradient of each target that was reached, by its place among `targets`, which
/// are all different.
void run_backward(TapeState& tape, std::span<Seed> seeds, std::span<Value* const> targets, BackwardRun options,
                  FunctionRef<void(std::size_t, Tensor&&)> deliver);

}  // namespace capstan::detail
