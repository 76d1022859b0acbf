// Tensor: an immutable n-dimensional value that may point to where it stands on a tape. Buffer: the writable form.
// Not for: arithmetic (the ops layer) or recording (tape.h).
#pragma once

#include <capstan/autograd/dtype.h>
#include <capstan/autograd/layout.h>
#include <capstan/autograd/small.h>
#include <capstan/autograd/storage.h>
#include <capstan/autograd/view.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace capstan {

class Tensor;

namespace detail {
struct TapeState;
struct Value;

/// Where a tensor stands on a tape. It keeps nothing alive: once the tape is gone or consumed, `generation` no longer
/// matches and the tensor is a constant.
struct Link {
  TapeState* tape = nullptr;
  std::uint64_t generation = 0;
  Value* value = nullptr;
  friend bool operator==(const Link&, const Link&) = default;
};

struct Access;
}  // namespace detail

/// Writable, move-only, row-major memory. Becomes a Tensor by move; a tensor gives itself up by `Tensor::to_buffer`.
class Buffer {
 public:
  /// Uninitialised elements from the pool.
  Buffer(const Shape& shape, DType dtype);
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;

  const Shape& shape() const { return layout_.shape(); }
  DType dtype() const { return dtype_; }
  Index elements() const { return layout_.elements(); }
  View view() { return {storage_.get()->data(), &layout_, dtype_}; }
  /// The elements; an Error if T is not the dtype's type.
  template <Element T>
  std::span<T> data() {
    require_dtype(dtype_of<T>);
    return {static_cast<T*>(storage_.get()->data()), static_cast<std::size_t>(elements())};
  }

 private:
  friend class Tensor;
  friend struct detail::Access;
  template <class... Parts>
  Buffer(StorageHandle storage, DType dtype, const Parts&... layout)
      : storage_(std::move(storage)), layout_(layout...), dtype_(dtype) {}
  void require_dtype(DType wanted) const;
  StorageHandle storage_;
  Layout layout_;
  DType dtype_;
};

/// An immutable value: storage, layout, dtype, and a weak link to its place on a tape. Copies share the storage.
class Tensor {
 public:
  /// An empty handle: defined() is false, and every op refuses it.
  Tensor() noexcept {}
  Tensor(Buffer&& buffer) : storage_(std::move(buffer.storage_)), layout_(buffer.layout_), dtype_(buffer.dtype_) {}

  bool defined() const { return storage_.get() != nullptr; }
  const Shape& shape() const { return layout_.shape(); }
  int rank() const { return layout_.rank(); }
  /// Size of an axis; negative axes count from the end.
  Index size(int axis) const { return shape()[shape().axis("size", axis)]; }
  Index elements() const { return layout_.elements(); }
  DType dtype() const { return dtype_; }
  const Layout& layout() const { return layout_; }
  bool contiguous() const { return layout_.contiguous(); }

  /// True while it descends from a watched tensor of a living tape.
  bool recorded() const;
  /// The same value without its link: a constant.
  Tensor detach() const;
  /// The same value in row-major order; shares storage if it is so already. Not recorded.
  Tensor dense() const;

  /// The value of a tensor with exactly one element, as double; an Error otherwise.
  double item() const;
  /// The element at an index, as double; an Error if the index does not fit.
  double at(std::initializer_list<Index> index) const;
  /// All elements in row-major order; an Error if T is not the dtype's type.
  template <Element T>
  std::vector<T> to_vector() const;
  /// All elements in row-major order, converted to double.
  std::vector<double> to_doubles() const;
  /// The elements of a contiguous tensor; an Error if it is not contiguous or T is not its type.
  template <Element T>
  std::span<const T> data() const {
    require_dense(dtype_of<T>);
    return {static_cast<const T*>(storage_.get()->data()) + layout_.offset(), static_cast<std::size_t>(elements())};
  }

  /// Gives the storage up: in place if this handle is its only owner and it is row-major and whole, a copy otherwise.
  Buffer to_buffer() &&;

  ConstView view() const { return {storage_.get()->data(), &layout_, dtype_}; }

 private:
  friend struct detail::Access;
  template <class... Parts>
  Tensor(StorageHandle storage, DType dtype, const detail::Link& link, const Parts&... layout)
      : storage_(std::move(storage)), layout_(layout...), link_(link), dtype_(dtype) {}
  void require_dense(DType wanted) const;

  StorageHandle storage_;
  Layout layout_;
  detail::Link link_;
  DType dtype_ = DType::f32;
};

using Tensors = Small<Tensor, 4>;

namespace detail {
[[noreturn]] void fail_too_large(const Shape& shape, DType dtype);

/// Bytes of a row-major tensor; an Error beyond 2^60.
inline std::size_t bytes_for(const Shape& shape, DType dtype) {
  constexpr Index largest = Index{1} << 60;
  const Index elements = shape.elements();
  // A division only where it may matter.
  if (elements > largest / 8 && elements > largest / size_of(dtype)) fail_too_large(shape, dtype);
  return static_cast<std::size_t>(elements * size_of(dtype));
}

/// The engine's door to a tensor's parts.
struct Access {
  static Tensor make(StorageHandle storage, const Layout& layout, DType dtype, const Link& link = {}) {
    return Tensor(std::move(storage), dtype, link, layout);
  }
  /// A fresh row-major tensor, not initialised.
  static Tensor create(const Shape& shape, DType dtype) { return Tensor(fresh(shape, dtype), dtype, {}, shape); }
  /// The same from sizes that were checked before.
  static Tensor create_tensor(const Index* sizes, int rank, DType dtype) {
    return Tensor(fresh(Shape::trusted(sizes, rank), dtype), dtype, {}, sizes, rank);
  }
  static Buffer create_buffer(const Index* sizes, int rank, DType dtype) {
    return Buffer(fresh(Shape::trusted(sizes, rank), dtype), dtype, sizes, rank);
  }
  /// The same tensor put together in place from the parts of its layout.
  template <class... Parts>
  static Tensor* construct(void* where, Storage* storage, DType dtype, const Link& link, const Parts&... layout) {
    return ::new (where) Tensor(StorageHandle::adopt(storage), dtype, link, layout...);
  }
  static StorageHandle fresh(const Shape& shape, DType dtype) {
    return StorageHandle::adopt(Storage::create(bytes_for(shape, dtype)));
  }
  static const Link& link(const Tensor& x) { return x.link_; }
  static void set_link(Tensor& x, const Link& link) { x.link_ = link; }
  static Storage* storage(const Tensor& x) { return x.storage_.get(); }
  static StorageHandle& handle(Tensor& x) { return x.storage_; }
  /// The same storage under another layout, unrecorded.
  static Tensor alias(const Tensor& x, const Layout& layout) { return Tensor(x.storage_, x.dtype_, {}, layout); }
};
}  // namespace detail

/// NumPy's way of printing, with shape and dtype, large tensors elided; rows stand on lines of their own:
/// `[1.  2.5]  f32 [2]`.
std::string to_string(const Tensor& x);

}  // namespace capstan
