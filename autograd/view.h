// What a kernel sees of a tensor: bytes, layout and dtype. Non-owning; valid for the length of one call.
#pragma once

#include <capstan/autograd/dtype.h>
#include <capstan/autograd/layout.h>

namespace capstan {

/// A readable operand. `data` points at the storage's first element; add layout.offset() for element (0, 0, …).
struct ConstView {
  const void* bytes = nullptr;
  const Layout* layout = nullptr;
  DType dtype = DType::f32;

  const Shape& shape() const { return layout->shape(); }
  Index elements() const { return layout->elements(); }
  /// Pointer to element (0, 0, …).
  template <Element T>
  const T* data() const {
    return static_cast<const T*>(bytes) + layout->offset();
  }
};

/// A writable result of an op: freshly allocated, row-major, not yet initialised.
struct View {
  void* bytes = nullptr;
  const Layout* layout = nullptr;
  DType dtype = DType::f32;

  const Shape& shape() const { return layout->shape(); }
  Index elements() const { return layout->elements(); }
  template <Element T>
  T* data() const {
    return static_cast<T*>(bytes) + layout->offset();
  }
  operator ConstView() const { return {bytes, layout, dtype}; }
};

}  // namespace capstan
