// where and cast: plain loops, which the compiler vectorises.
#include <capstan/ops/kernels/element_loop.h>
#include <capstan/ops/kernels/elementwise.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace capstan::kernels {
namespace {

/// Words, not floats: a selection moves bits. Without branches, which a mask would lead astray.
template <class Word>
Word selected(bool condition, Word a, Word b) {
  const Word taken = static_cast<Word>(-static_cast<Word>(condition));
  return static_cast<Word>((a & taken) | (b & static_cast<Word>(~taken)));
}

template <class Word>
void select_piece(const Piece& piece) {
  const bool* condition = piece.input<bool>(0);
  const Word* a = piece.input<Word>(1);
  const Word* b = piece.input<Word>(2);
  Word* y = piece.output<Word>();
  const Index count = piece.count;
  if (!piece.scalar[0] && !piece.scalar[1] && !piece.scalar[2]) {
    for (Index i = 0; i < count; ++i) y[i] = selected(condition[i], a[i], b[i]);
    return;
  }
  if (!piece.scalar[0] && !piece.scalar[1]) {
    const Word q = b[0];
    for (Index i = 0; i < count; ++i) y[i] = selected(condition[i], a[i], q);
    return;
  }
  const Index c_step = piece.scalar[0] ? 0 : 1, a_step = piece.scalar[1] ? 0 : 1, b_step = piece.scalar[2] ? 0 : 1;
  for (Index i = 0; i < count; ++i) y[i] = selected(condition[i * c_step], a[i * a_step], b[i * b_step]);
}

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_same_v<To, std::int32_t> && std::is_floating_point_v<From>) {
    // Outside the range of i32 the conversion itself would be undefined.
    if (std::isnan(x)) return 0;
    const double bounded = std::clamp(static_cast<double>(x), static_cast<double>(std::numeric_limits<To>::min()),
                                      static_cast<double>(std::numeric_limits<To>::max()));
    return static_cast<To>(bounded);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void cast_piece(const Piece& piece) {
  const From* x = piece.input<From>(0);
  To* y = piece.output<To>();
  if (piece.scalar[0]) {
    std::fill_n(y, piece.count, converted<To>(x[0]));
    return;
  }
  for (Index i = 0; i < piece.count; ++i) y[i] = converted<To>(x[i]);
}

}  // namespace

void where(ConstView condition, ConstView a, ConstView b, View y) {
  for_pieces(Region::elementwise, y, {condition, a, b}, cheap_grain, [&](const Piece& piece) {
    switch (size_of(y.dtype)) {
      case 8: return select_piece<std::uint64_t>(piece);
      case 4: return select_piece<std::uint32_t>(piece);
      default: return select_piece<std::uint8_t>(piece);
    }
  });
}

void cast(ConstView x, View y) {
  for_pieces(Region::elementwise, y, {x}, cheap_grain, [&](const Piece& piece) {
    visit_dtype(y.dtype, [&](auto to) {
      visit_dtype(x.dtype, [&](auto from) { cast_piece<decltype(to), decltype(from)>(piece); });
    });
  });
}

}  // namespace capstan::kernels
