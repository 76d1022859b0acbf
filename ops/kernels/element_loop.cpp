// Plans of collapsed axes, and the walks over them.
#include <capstan/ops/kernels/element_loop.h>

#include <algorithm>
#include <cstring>

namespace capstan::kernels {
namespace {

/// Elements that pass through the buffers at a time.
constexpr Index chunk = 512;
/// Innermost runs shorter than this are gathered several at a time.
constexpr Index short_run = 64;

struct Walk {
  const char* bytes = nullptr;
  Index element = 0;          // bytes
  Index strides[max_rank]{};  // bytes, after broadcasting and collapsing
};

/// y's shape with axes of size 1 dropped and neighbours merged where all operands allow it. Operand 0 is y.
struct Plan {
  int rank = 0;
  int operands = 0;
  Index sizes[max_rank]{};
  Walk walks[max_inputs + 1];

  void add(ConstView view, const Shape& shape) {
    Walk& walk = walks[operands++];
    walk.element = size_of(view.dtype);
    walk.bytes = static_cast<const char*>(view.bytes) + view.layout->offset() * walk.element;
    const int missing = shape.rank() - view.layout->rank();
    for (int axis = missing; axis < shape.rank(); ++axis) {
      const bool stretched = view.layout->size(axis - missing) == 1;
      walk.strides[axis] = stretched ? 0 : view.layout->stride(axis - missing) * walk.element;
    }
  }

  void collapse(const Shape& shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      if (rank > 0 && mergeable(axis, shape[axis])) {
        sizes[rank - 1] *= shape[axis];
      } else {
        sizes[rank++] = shape[axis];
      }
      for (int i = 0; i < operands; ++i) walks[i].strides[rank - 1] = walks[i].strides[axis];
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = 1;
      for (int i = 0; i < operands; ++i) walks[i].strides[0] = walks[i].element;
    }
  }

  /// Axis `axis` of the uncollapsed strides continues the last collapsed one, for every operand.
  bool mergeable(int axis, Index size) const {
    for (int i = 0; i < operands; ++i)
      if (walks[i].strides[rank - 1] != walks[i].strides[axis] * size) return false;
    return true;
  }

  bool dense(int i) const {
    Index expected = walks[i].element;
    for (int axis = rank; axis-- > 0; expected *= sizes[axis])
      if (walks[i].strides[axis] != expected) return false;
    return true;
  }
  bool constant(int i) const {
    for (int axis = 0; axis < rank; ++axis)
      if (walks[i].strides[axis] != 0) return false;
    return true;
  }
};

/// A place in the plan's index space.
struct Place {
  Index index[max_rank]{};

  Place(const Plan& plan, Index linear) {
    for (int axis = plan.rank; axis-- > 0;) {
      index[axis] = linear % plan.sizes[axis];
      linear /= plan.sizes[axis];
    }
  }
  Index offset(const Plan& plan, int operand) const {
    Index bytes = 0;
    for (int axis = 0; axis < plan.rank; ++axis) bytes += index[axis] * plan.walks[operand].strides[axis];
    return bytes;
  }
  void next_run(const Plan& plan) {
    index[plan.rank - 1] = 0;
    for (int axis = plan.rank - 1; axis-- > 0;) {
      if (++index[axis] < plan.sizes[axis]) return;
      index[axis] = 0;
    }
  }
};

template <class Word>
void gather_words(const char* from, Index stride, char* to, Index count) {
  for (Index i = 0; i < count; ++i) std::memcpy(to + i * Index{sizeof(Word)}, from + i * stride, sizeof(Word));
}
void gather_run(const char* from, Index stride, char* to, Index count, Index element) {
  if (stride == element) {
    std::memcpy(to, from, static_cast<std::size_t>(count * element));
  } else if (element == 4) {
    gather_words<std::uint32_t>(from, stride, to, count);
  } else if (element == 8) {
    gather_words<std::uint64_t>(from, stride, to, count);
  } else {
    gather_words<std::uint8_t>(from, stride, to, count);
  }
}
template <class Word>
void scatter_words(const char* from, char* to, Index stride, Index count) {
  for (Index i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * Index{sizeof(Word)}, sizeof(Word));
}
void scatter_run(const char* from, char* to, Index stride, Index count, Index element) {
  if (stride == element) {
    std::memcpy(to, from, static_cast<std::size_t>(count * element));
  } else if (element == 4) {
    scatter_words<std::uint32_t>(from, to, stride, count);
  } else if (element == 8) {
    scatter_words<std::uint64_t>(from, to, stride, count);
  } else {
    scatter_words<std::uint8_t>(from, to, stride, count);
  }
}

/// Calls f(offset of the run, inner index, count, done before) for the runs within [begin, begin + count).
template <class F>
void for_runs(const Plan& plan, int operand, Index begin, Index count, F&& f) {
  Place place(plan, begin);
  const Index inner = plan.sizes[plan.rank - 1];
  for (Index done = 0; done < count;) {
    const Index run = std::min(count - done, inner - place.index[plan.rank - 1]);
    f(place.offset(plan, operand), run, done);
    done += run;
    place.next_run(plan);
  }
}

char* writable(const char* bytes) { return const_cast<char*>(bytes); }

struct Buffers {
  alignas(64) char bytes[max_inputs + 1][chunk * 8];
};

/// Innermost runs are long: each is a piece of its own, through buffers only where an operand has a stride.
void long_runs(const Plan& plan, Index begin, Index end, FunctionRef<void(const Piece&)> body) {
  Buffers buffers;
  const int last = plan.rank - 1;
  bool strided = false;
  for (int i = 0; i < plan.operands; ++i) {
    const Walk& walk = plan.walks[i];
    const bool direct = walk.strides[last] == walk.element || (i > 0 && walk.strides[last] == 0);
    strided = strided || !direct;
  }
  Place place(plan, begin);
  for (Index at = begin; at < end;) {
    Index count = std::min(end - at, plan.sizes[last] - place.index[last]);
    if (strided) count = std::min(count, chunk);
    Piece piece;
    piece.count = count;
    for (int i = 1; i < plan.operands; ++i) {
      const Walk& walk = plan.walks[i];
      const char* from = walk.bytes + place.offset(plan, i);
      piece.scalar[i - 1] = walk.strides[last] == 0;
      piece.in[i - 1] = from;
      if (walk.strides[last] == walk.element || piece.scalar[i - 1]) continue;
      gather_run(from, walk.strides[last], buffers.bytes[i], count, walk.element);
      piece.in[i - 1] = buffers.bytes[i];
    }
    const Walk& y = plan.walks[0];
    char* to = writable(y.bytes) + place.offset(plan, 0);
    const bool direct = y.strides[last] == y.element;
    piece.out = direct ? to : buffers.bytes[0];
    body(piece);
    if (!direct) scatter_run(buffers.bytes[0], to, y.strides[last], count, y.element);
    at += count;
    place.index[last] += count;
    if (place.index[last] == plan.sizes[last]) place.next_run(plan);
  }
}

/// Innermost runs are short: a chunk of many runs at a time, gathered where an operand is not dense throughout.
void short_runs(const Plan& plan, Index begin, Index end, FunctionRef<void(const Piece&)> body) {
  Buffers buffers;
  bool dense[max_inputs + 1], constant[max_inputs + 1];
  for (int i = 0; i < plan.operands; ++i) {
    dense[i] = plan.dense(i);
    constant[i] = i > 0 && plan.constant(i);
  }
  const int last = plan.rank - 1;
  for (Index at = begin; at < end; at += chunk) {
    Piece piece;
    piece.count = std::min(chunk, end - at);
    for (int i = 1; i < plan.operands; ++i) {
      const Walk& walk = plan.walks[i];
      piece.scalar[i - 1] = constant[i];
      if (dense[i] || constant[i]) {
        piece.in[i - 1] = walk.bytes + (constant[i] ? 0 : at * walk.element);
        continue;
      }
      char* to = buffers.bytes[i];
      piece.in[i - 1] = to;
      for_runs(plan, i, at, piece.count, [&](Index offset, Index count, Index done) {
        gather_run(walk.bytes + offset, walk.strides[last], to + done * walk.element, count, walk.element);
      });
    }
    const Walk& y = plan.walks[0];
    piece.out = dense[0] ? writable(y.bytes) + at * y.element : buffers.bytes[0];
    body(piece);
    if (dense[0]) continue;
    for_runs(plan, 0, at, piece.count, [&](Index offset, Index count, Index done) {
      scatter_run(buffers.bytes[0] + done * y.element, writable(y.bytes) + offset, y.strides[last], count, y.element);
    });
  }
}

/// One piece for everything, if all operands are dense or a single value: most calls, and the tiny ones, for which a
/// plan would cost more than the work.
bool is_one_piece(View y, std::initializer_list<ConstView> inputs, Index elements) {
  if (!y.layout->contiguous()) return false;
  for (const ConstView& input : inputs) {
    const Index count = input.layout->elements();
    if (count != 1 && (count != elements || !input.layout->contiguous())) return false;
  }
  return true;
}

/// Elements [begin, end) of that piece.
Piece part_of(View y, std::initializer_list<ConstView> inputs, Index elements, Index begin, Index end) {
  const auto place = [](const void* bytes, const Layout* layout, DType dtype, Index element) {
    return static_cast<const char*>(bytes) + (layout->offset() + element) * size_of(dtype);
  };
  Piece piece;
  piece.count = end - begin;
  piece.out = writable(place(y.bytes, y.layout, y.dtype, begin));
  int i = 0;
  for (const ConstView& input : inputs) {
    const bool scalar = elements != 1 && input.layout->elements() == 1;
    piece.scalar[i] = scalar;
    piece.in[i++] = place(input.bytes, input.layout, input.dtype, scalar ? 0 : begin);
  }
  return piece;
}

}  // namespace

void for_pieces(Region region, View y, std::initializer_list<ConstView> inputs, Index grain,
                FunctionRef<void(const Piece&)> body) {
  const Shape& shape = y.shape();
  const Index elements = shape.elements();
  if (elements == 0) return;
  grain = even_grain(elements, grain);
  if (is_one_piece(y, inputs, elements)) {
    parallel_blocks(region, elements, grain,
                    [&](Index begin, Index end) { body(part_of(y, inputs, elements, begin, end)); });
    return;
  }
  Plan plan;
  plan.add(y, shape);
  for (const ConstView& input : inputs) plan.add(input, shape);
  plan.collapse(shape);
  parallel_blocks(region, elements, grain, [&](Index begin, Index end) {
    if (plan.rank == 1 || plan.sizes[plan.rank - 1] >= short_run) {
      long_runs(plan, begin, end, body);
    } else {
      short_runs(plan, begin, end, body);
    }
  });
}

}  // namespace capstan::kernels
