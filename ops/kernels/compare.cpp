// Comparisons and boolean operations: plain loops, which the compiler vectorises.
#include <capstan/ops/kernels/element_loop.h>
#include <capstan/ops/kernels/elementwise.h>

namespace capstan::kernels {
namespace {

template <class T, class F>
void loop(const Piece& piece, F f) {
  const T* a = piece.input<T>(0);
  const T* b = piece.input<T>(1);
  bool* y = piece.output<bool>();
  const Index count = piece.count;
  // A loop each: with a stride that is only known at run time the compiler would not vectorise.
  if (piece.scalar[1]) {
    const T second = b[0];
    if (piece.scalar[0]) {
      for (Index i = 0; i < count; ++i) y[i] = f(a[0], second);
    } else {
      for (Index i = 0; i < count; ++i) y[i] = f(a[i], second);
    }
  } else if (piece.scalar[0]) {
    const T first = a[0];
    for (Index i = 0; i < count; ++i) y[i] = f(first, b[i]);
  } else {
    for (Index i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
  }
}

template <class T>
void compare_piece(Compare op, const Piece& piece) {
  switch (op) {
    case Compare::equal: return loop<T>(piece, [](T a, T b) { return a == b; });
    case Compare::not_equal: return loop<T>(piece, [](T a, T b) { return a != b; });
    case Compare::less: return loop<T>(piece, [](T a, T b) { return a < b; });
    case Compare::less_equal: return loop<T>(piece, [](T a, T b) { return a <= b; });
    case Compare::greater: return loop<T>(piece, [](T a, T b) { return a > b; });
    case Compare::greater_equal: return loop<T>(piece, [](T a, T b) { return a >= b; });
  }
}

}  // namespace

void compare(Compare op, ConstView a, ConstView b, View y) {
  for_pieces(Region::elementwise, y, {a, b}, cheap_grain, [&](const Piece& piece) {
    visit_dtype(a.dtype, [&](auto zero) { compare_piece<decltype(zero)>(op, piece); });
  });
}

void logical(Logical op, ConstView a, ConstView b, View y) {
  for_pieces(Region::elementwise, y, {a, b}, cheap_grain, [&](const Piece& piece) {
    switch (op) {
      case Logical::logical_and: return loop<bool>(piece, [](bool p, bool q) { return p & q; });
      case Logical::logical_or: return loop<bool>(piece, [](bool p, bool q) { return p | q; });
      case Logical::logical_xor: return loop<bool>(piece, [](bool p, bool q) { return p != q; });
    }
  });
}

void logical_not(ConstView x, View y) {
  for_pieces(Region::elementwise, y, {x, x}, cheap_grain,
             [&](const Piece& piece) { loop<bool>(piece, [](bool p, bool) { return !p; }); });
}

}  // namespace capstan::kernels
