#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>

#include <algorithm>
#include <cmath>

namespace capstan {

namespace {

/// Sizes along the first elements; every other branch is held against them while it is flattened.
Shape shape_of(const NestedList& list) {
  Shape shape;
  const NestedList* at = &list;
  while (at->is_list()) {
    shape.push_back(static_cast<Index>(at->items().size()));
    if (at->items().size() == 0) break;
    at = at->items().begin();
  }
  return shape;
}

void flatten(const NestedList& list, const Shape& shape, int depth, std::vector<double>& out) {
  const bool expected_list = depth < shape.rank();
  if (list.is_list() != expected_list || (expected_list && static_cast<Index>(list.items().size()) != shape[depth]))
    fail("tensor: lists of one level must have one length; got {} where {} was begun at depth {}",
         list.is_list() ? fmt::format("a list of {}", list.items().size()) : std::string("a number"), shape, depth);
  if (!expected_list) return out.push_back(list.value());
  for (const NestedList& item : list.items()) flatten(item, shape, depth + 1, out);
}

template <class T>
T converted(double value, const char* op) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    if (!(value >= -2147483648.0 && value <= 2147483647.0) || value != std::trunc(value))
      fail("{}: an i32 element must be a whole number within 32 bits; got {}", op, value);
  }
  return static_cast<T>(value);
}

}  // namespace

Tensor tensor(const NestedList& list, DType dtype) {
  const Shape shape = shape_of(list);
  std::vector<double> elements;
  flatten(list, shape, 0, elements);
  Buffer buffer(shape, dtype);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(elements.begin(), elements.end(), buffer.data<T>().begin(),
                   [](double x) { return converted<T>(x, "tensor"); });
  });
  return buffer;
}

template <Element T>
Tensor tensor(std::span<const T> elements, const Shape& shape) {
  if (static_cast<Index>(elements.size()) != shape.elements())
    fail("tensor: the number of elements must be the shape's; got {} for shape {}", elements.size(), shape);
  Buffer buffer(shape, dtype_of<T>);
  std::copy(elements.begin(), elements.end(), buffer.data<T>().begin());
  return buffer;
}
template Tensor tensor(std::span<const float>, const Shape&);
template Tensor tensor(std::span<const double>, const Shape&);
template Tensor tensor(std::span<const std::int32_t>, const Shape&);
template Tensor tensor(std::span<const bool>, const Shape&);

Tensor full(const Shape& shape, double value, DType dtype) {
  Buffer buffer(shape, dtype);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::fill(buffer.data<T>(), converted<T>(value, "full"));
  });
  return buffer;
}

Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor arange(double start, double stop, double step, DType dtype) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step))
    fail("arange: start, stop and step must be finite, and step not 0; got {}, {}, {}", start, stop, step);
  const double count = std::max(0.0, std::ceil((stop - start) / step));
  if (count > 1e15) fail("arange: at most 1e15 elements; got {}", count);
  Buffer buffer(Shape{static_cast<Index>(count)}, dtype);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto out = buffer.data<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = converted<T>(start + static_cast<double>(i) * step, "arange");
  });
  return buffer;
}

Tensor arange(Index count) { return arange(0, static_cast<double>(count), 1, DType::i32); }

Tensor eye(Index n, DType dtype) {
  Buffer buffer(Shape{n, n}, dtype);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto out = buffer.data<T>();
    for (Index i = 0; i < n * n; ++i) out[static_cast<std::size_t>(i)] = static_cast<T>(i / n == i % n ? 1 : 0);
  });
  return buffer;
}

namespace {
void require_random(const char* op, DType dtype) {
  if (!is_float(dtype)) fail("{}: the dtype must be f32 or f64; got {}", op, dtype);
}
}  // namespace

Tensor uniform(Key key, const Shape& shape, double low, double high, DType dtype) {
  require_random("uniform", dtype);
  Buffer buffer(shape, dtype);
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    fill_uniform(key, buffer.data<T>().data(), shape.elements(), static_cast<T>(low), static_cast<T>(high));
  });
  return buffer;
}

Tensor normal(Key key, const Shape& shape, double mean, double deviation, DType dtype) {
  require_random("normal", dtype);
  if (!(deviation >= 0) || !std::isfinite(mean) || !std::isfinite(deviation))
    fail("normal: mean must be finite, the deviation finite and not negative; got {} and {}", mean, deviation);
  Buffer buffer(shape, dtype);
  visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    fill_normal(key, buffer.data<T>().data(), shape.elements(), static_cast<T>(mean), static_cast<T>(deviation));
  });
  return buffer;
}

}  // namespace capstan
