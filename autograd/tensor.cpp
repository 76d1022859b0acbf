#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/strided.h>
#include <capstan/autograd/tensor.h>

#include <cstring>

namespace capstan {

void detail::fail_too_large(const Shape& shape, DType dtype) {
  fail("tensor: at most 2^60 bytes; got {} elements of {}, shape {}", shape.elements(), dtype, shape);
}

namespace {

using detail::bytes_for;

/// Row-major copy of a strided view, converted from the element type From to To.
template <class From, class To>
void copy_dense(const ConstView& x, To* out) {
  const auto* from = static_cast<const From*>(x.bytes);
  const Layout dense(x.shape());
  detail::for_each_run(*x.layout, dense, [&](Index at_x, Index at_out, Index count, Index stride, Index) {
    if constexpr (std::is_same_v<From, To>) {
      if (stride == 1) {
        std::memcpy(out + at_out, from + at_x, static_cast<std::size_t>(count) * sizeof(To));
        return;
      }
    }
    for (Index i = 0; i < count; ++i) out[at_out + i] = static_cast<To>(from[at_x + i * stride]);
  });
}

void require_defined(const char* what, const Tensor& x) {
  if (!x.defined()) fail("{}: the tensor must hold a value; got an empty handle; assign a tensor to it first", what);
}

}  // namespace

Buffer::Buffer(const Shape& shape, DType dtype)
    : storage_(detail::Access::fresh(shape, dtype)), layout_(shape), dtype_(dtype) {}

void Buffer::require_dtype(DType wanted) const {
  if (wanted != dtype_) fail("data: the element type must be the dtype's; got {} for a buffer of {}", wanted, dtype_);
}

bool Tensor::recorded() const { return detail::living_tape(link_) != nullptr; }

Tensor Tensor::detach() const { return Tensor(storage_, dtype_, {}, layout_); }

Tensor Tensor::dense() const {
  require_defined("dense", *this);
  if (contiguous()) return detach();
  Buffer copy(shape(), dtype_);
  visit_dtype(dtype_, [&](auto zero) { copy_dense<decltype(zero)>(view(), copy.data<decltype(zero)>().data()); });
  return copy;
}

double Tensor::item() const {
  require_defined("item", *this);
  if (elements() != 1) fail("item: the tensor must have exactly one element; got shape {}", shape());
  return visit_dtype(dtype_, [&](auto zero) { return static_cast<double>(*view().data<decltype(zero)>()); });
}

double Tensor::at(std::initializer_list<Index> index) const {
  require_defined("at", *this);
  const std::span<const Index> wanted(index.begin(), index.size());
  bool fits = static_cast<int>(index.size()) == rank();
  Index position = layout_.offset();
  for (int i = 0; fits && i < rank(); ++i) {
    const Index along = wanted[static_cast<std::size_t>(i)];
    fits = along >= 0 && along < shape()[i];
    if (fits) position += along * layout_.stride(i);
  }
  if (!fits) fail("at: the index must lie inside the shape {}; got [{}]", shape(), fmt::join(wanted, ", "));
  return visit_dtype(dtype_, [&](auto zero) {
    return static_cast<double>(static_cast<const decltype(zero)*>(view().bytes)[position]);
  });
}

template <Element T>
std::vector<T> Tensor::to_vector() const {
  require_defined("to_vector", *this);
  if (dtype_of<T> != dtype_)
    fail("to_vector: the element type must be the dtype's; got {} for a tensor of {}", dtype_of<T>, dtype_);
  if constexpr (std::is_same_v<T, bool>) {
    const Tensor x = dense();
    const auto elements = x.data<bool>();
    return {elements.begin(), elements.end()};
  } else {
    std::vector<T> out(static_cast<std::size_t>(elements()));
    copy_dense<T>(view(), out.data());
    return out;
  }
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

std::vector<double> Tensor::to_doubles() const {
  require_defined("to_doubles", *this);
  std::vector<double> out(static_cast<std::size_t>(elements()));
  visit_dtype(dtype_, [&](auto zero) { copy_dense<decltype(zero)>(view(), out.data()); });
  return out;
}

void Tensor::require_dense(DType wanted) const {
  require_defined("data", *this);
  if (wanted != dtype_) fail("data: the element type must be the dtype's; got {} for a tensor of {}", wanted, dtype_);
  if (!contiguous())
    fail("data: the tensor must be contiguous; got a strided view of shape {}; call dense() first", shape());
}

Buffer Tensor::to_buffer() && {
  require_defined("to_buffer", *this);
  const bool whole = contiguous() && layout_.offset() == 0 && storage_.get()->bytes() == bytes_for(shape(), dtype_);
  if (whole && storage_.get()->unique()) return Buffer(std::move(storage_), dtype_, shape());
  Buffer copy(shape(), dtype_);
  visit_dtype(dtype_, [&](auto zero) { copy_dense<decltype(zero)>(view(), copy.data<decltype(zero)>().data()); });
  *this = Tensor();
  return copy;
}

}  // namespace capstan
