// Copies and fills: transposes by tiles, everything else by dense pieces.
#include <capstan/ops/kernels/copy.h>
#include <capstan/ops/kernels/element_loop.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace capstan::kernels {
namespace {

/// A side of the square tiles of a transpose: 32 × 32 doubles are 8 KiB for each side.
constexpr Index tile = 32;

/// y [rows, columns] = x, where x runs along the rows: both are walked tile by tile, so that each cache line that is
/// fetched is used while it is there.
template <class Word>
void transpose_tiles(const char* x, Index x_row, Index x_column, char* y, Index y_row, Index rows, Index columns) {
  for (Index r = 0; r < rows; r += tile)
    for (Index c = 0; c < columns; c += tile) {
      const Index r_end = std::min(rows, r + tile), c_end = std::min(columns, c + tile);
      for (Index i = r; i < r_end; ++i)
        for (Index j = c; j < c_end; ++j)
          std::memcpy(y + i * y_row + j * Index{sizeof(Word)}, x + i * x_row + j * x_column, sizeof(Word));
    }
}

/// The axis along which x is dense (or nearly), if it is not the last one and both it and the last one are long enough
/// for tiles to help; −1 otherwise.
int transposed_axis(ConstView x, View y) {
  const int last = y.shape().rank() - 1;
  if (last < 1 || x.layout->rank() != last + 1 || !(x.shape() == y.shape())) return -1;
  if (y.layout->stride(last) != 1 || y.shape()[last] < 8) return -1;
  int best = last;
  for (int axis = 0; axis <= last; ++axis) {
    const Index stride = std::abs(x.layout->stride(axis));
    if (y.shape()[axis] >= 8 && stride != 0 && stride < std::abs(x.layout->stride(best))) best = axis;
  }
  return best == last ? -1 : best;
}

void copy_transposed(ConstView x, View y, int row_axis) {
  const Shape& shape = y.shape();
  const int last = shape.rank() - 1;
  const Index element = size_of(y.dtype);
  const Index rows = shape[row_axis], columns = shape[last];
  // A task is a strip of rows of one [rows, columns] plane; the other axes number the planes.
  const Index strip = std::max(tile, cheap_grain / columns / tile * tile);
  const Index strips = (rows + strip - 1) / strip;
  const Index planes = shape.elements() / (rows * columns);
  const Index plane_grain = std::max(Index{1}, cheap_grain / (rows * columns));
  parallel_blocks(Region::copy, planes * strips, strips > 1 ? 1 : plane_grain, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      Index plane = task / strips;
      Index from = x.layout->offset(), to = y.layout->offset();
      for (int axis = last; axis-- > 0;) {
        if (axis == row_axis) continue;
        const Index index = plane % shape[axis];
        plane /= shape[axis];
        from += index * x.layout->stride(axis);
        to += index * y.layout->stride(axis);
      }
      const Index first = task % strips * strip;
      const Index count = std::min(strip, rows - first);
      from += first * x.layout->stride(row_axis);
      to += first * y.layout->stride(row_axis);
      const char* source = static_cast<const char*>(x.bytes) + from * element;
      char* target = static_cast<char*>(y.bytes) + to * element;
      const Index x_row = x.layout->stride(row_axis) * element, x_column = x.layout->stride(last) * element;
      const Index y_row = y.layout->stride(row_axis) * element;
      if (element == 4) {
        transpose_tiles<std::uint32_t>(source, x_row, x_column, target, y_row, count, columns);
      } else if (element == 8) {
        transpose_tiles<std::uint64_t>(source, x_row, x_column, target, y_row, count, columns);
      } else {
        transpose_tiles<std::uint8_t>(source, x_row, x_column, target, y_row, count, columns);
      }
    }
  });
}

/// True if y is row-major and x's last axis is dense: heads that are split or joined, for example.
bool is_of_rows(ConstView x, View y) {
  const int last = y.shape().rank() - 1;
  return last > 0 && x.shape() == y.shape() && y.layout->contiguous() && x.layout->stride(last) == 1 &&
         y.shape()[last] * size_of(y.dtype) >= 32;
}

/// Row by row. The general walk takes several times as long for short rows.
void copy_rows(ConstView x, View y) {
  const Layout& layout = *x.layout;
  const int last = y.shape().rank() - 1;
  const Index element = size_of(y.dtype), length = y.shape()[last], rows = y.elements() / length;
  const auto bytes = static_cast<std::size_t>(length * element);
  const Index grain = even_grain(rows, std::max(Index{1}, cheap_grain / length));
  parallel_blocks(Region::copy, rows, grain, [&](Index begin, Index end) {
    Index index[max_rank], from = layout.offset(), rest = begin;
    for (int axis = last; axis-- > 0; rest /= layout.size(axis)) {
      index[axis] = rest % layout.size(axis);
      from += index[axis] * layout.stride(axis);
    }
    const char* const source = static_cast<const char*>(x.bytes);
    char* target = static_cast<char*>(y.bytes) + (y.layout->offset() + begin * length) * element;
    for (Index row = begin; row < end; ++row, target += bytes) {
      std::memcpy(target, source + from * element, bytes);
      for (int axis = last; axis-- > 0;) {
        from += layout.stride(axis);
        if (++index[axis] < layout.size(axis)) break;
        from -= index[axis] * layout.stride(axis);
        index[axis] = 0;
      }
    }
  });
}

template <class Word>
void fill_words(void* to, const void* word, Index count) {
  Word value;
  std::memcpy(&value, word, sizeof value);
  std::fill_n(static_cast<Word*>(to), count, value);
}

void fill_piece(void* to, const void* word, Index count, Index element) {
  if (element == 8) {
    fill_words<std::uint64_t>(to, word, count);
  } else if (element == 4) {
    fill_words<std::uint32_t>(to, word, count);
  } else {
    fill_words<std::uint8_t>(to, word, count);
  }
}

}  // namespace

void copy(ConstView x, View y) {
  if (y.elements() == 0) return;
  if (const int axis = transposed_axis(x, y); axis >= 0) return copy_transposed(x, y, axis);
  if (is_of_rows(x, y)) return copy_rows(x, y);
  const Index element = size_of(y.dtype);
  for_pieces(Region::copy, y, {x}, cheap_grain, [&](const Piece& piece) {
    if (piece.scalar[0]) return fill_piece(piece.out, piece.in[0], piece.count, element);
    std::memcpy(piece.out, piece.in[0], static_cast<std::size_t>(piece.count * element));
  });
}

void fill(View y, double value) {
  visit_dtype(y.dtype, [&](auto zero) {
    const auto word = static_cast<decltype(zero)>(value);
    for_pieces(Region::copy, y, {}, cheap_grain,
               [&](const Piece& piece) { fill_piece(piece.out, &word, piece.count, Index{sizeof word}); });
  });
}

}  // namespace capstan::kernels
