// Factories: tensors from lists, memory, ranges and random keys. All return constants (nothing is recorded).
#pragma once

#include <capstan/autograd/random.h>
#include <capstan/autograd/tensor.h>

#include <initializer_list>
#include <span>

namespace capstan {

/// Nested braces of numbers: {{1, 2}, {3, 4}}. Only an argument of `tensor`.
class NestedList {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> NestedList(T value) : value_(static_cast<double>(value)) {}
  NestedList(std::initializer_list<NestedList> items) : items_(items), is_list_(true) {}
  bool is_list() const { return is_list_; }
  double value() const { return value_; }
  std::initializer_list<NestedList> items() const { return items_; }

 private:
  double value_ = 0;
  std::initializer_list<NestedList> items_;
  bool is_list_ = false;
};

/// A tensor from nested lists, f32 unless told: tensor({{1, 2}, {3, 4}}) is [2, 2], tensor(3) is a scalar. An Error where
/// lists of one level differ in length, or where a number does not fit i32 exactly.
Tensor tensor(const NestedList& list, DType dtype = DType::f32);
/// A copy of `elements` in row-major order; the dtype is the element type's. An Error if the count is not the shape's.
template <Element T>
Tensor tensor(std::span<const T> elements, const Shape& shape);
template <Element T>
Tensor tensor(const std::vector<T>& elements, const Shape& shape) requires(!std::is_same_v<T, bool>) {
  return tensor(std::span<const T>(elements), shape);
}

/// Every element equals `value`, converted to the dtype.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
/// start, start + step, …, all before stop: ⌈(stop − start) / step⌉ elements. An Error if step is 0.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::f32);
/// 0, 1, …, count − 1 as i32.
Tensor arange(Index count);
/// The identity matrix [n, n].
Tensor eye(Index n, DType dtype = DType::f32);

/// Independent uniforms in [low, high); element i is a function of (key, i) alone (Philox; Salmon et al. 2011).
Tensor uniform(Key key, const Shape& shape, double low = 0, double high = 1, DType dtype = DType::f32);
/// Independent normals; element i is a function of (key, i) alone.
Tensor normal(Key key, const Shape& shape, double mean = 0, double deviation = 1, DType dtype = DType::f32);

}  // namespace capstan
