#include <capstan/autograd/format.h>
#include <capstan/autograd/shape.h>

#include <algorithm>

namespace capstan {

Shape::Shape(std::span<const Index> sizes) {
  if (sizes.size() > max_rank) fail("shape: at most {} axes; got {}", max_rank, sizes.size());
  rank_ = static_cast<int>(sizes.size());
  detail::copy_axes(sizes.data(), rank_, sizes_.data());
  check();
}

// Sizes of 0 count as 1 here, so that no product of the others can wrap.
void Shape::check_large() const {
  constexpr Index max_elements = Index{1} << 62;
  Index count = 1;
  for (const Index size : *this) {
    if (size < 0) fail("shape: sizes must not be negative; got {}", size);
    if (__builtin_mul_overflow(count, std::max<Index>(size, 1), &count) || count > max_elements)
      fail("shape: at most 2^62 elements; got sizes {}", fmt::join(begin(), end(), " x "));
  }
}

void Shape::push_back(Index size) {
  if (rank_ == max_rank) fail("shape: at most {} axes; got one more", max_rank);
  sizes_.data()[rank_++] = size;
  if (size != 1) check();
}

void Shape::fail_axis(const char* op, int axis) const {
  fail("{}: axis must be in [{}, {}); got {} for shape {}", op, -rank_, rank_, axis, *this);
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  if (b.rank() == 0 || a == b) return a;
  if (a.rank() == 0) return b;
  const int rank = std::max(a.rank(), b.rank());
  Index sizes[max_rank];
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const Index size_a = in_a < 0 ? 1 : a[in_a];
    const Index size_b = in_b < 0 ? 1 : b[in_b];
    if (size_a != size_b && size_a != 1 && size_b != 1)
      fail("{}: shapes must broadcast (equal sizes, or 1, aligned at the last axis); got {} and {}", op, a, b);
    sizes[i] = size_a == 1 ? size_b : size_a;
  }
  return Shape(std::span<const Index>(sizes, static_cast<std::size_t>(rank)));
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

}  // namespace capstan
