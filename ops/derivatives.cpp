#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/derivatives.h>
#include <capstan/ops/rearrange.h>

#include <vector>

namespace capstan::detail {

namespace {

Shape joined(const char* name, const Shape& y, const Shape& x) {
  if (y.rank() + x.rank() > max_rank)
    fail("{}: y and x must have at most {} axes together; got {} and {}; reshape() them first", name, max_rank, y, x);
  Shape both = y;
  for (int axis = 0; axis < x.rank(); ++axis) both.push_back(x[axis]);
  return both;
}

/// The cotangent that asks for one element of y.
Tensor unit(const Tensor& y, Index element) {
  Buffer cotangent(y.shape(), y.dtype());
  visit_float(y.dtype(), [&](auto zero) {
    const auto elements = cotangent.data<decltype(zero)>();
    std::fill(elements.begin(), elements.end(), zero);
    elements[static_cast<std::size_t>(element)] = 1;
  });
  return cotangent;
}

}  // namespace

Tensor jacobian(const char* name, const Tensor& x, FunctionRef<Tensor(const Tensor&)> f) {
  if (x.defined() && !is_float(x.dtype()))
    fail("{}: x must be f32 or f64; got {} {}; cast() it first", name, x.dtype(), x.shape());
  Transform transform(name);
  transform.consider(x);
  const Tensor y = f(transform.watch(x));
  if (!y.defined()) fail("{}: f must return a value; got an empty handle", name);
  if (!is_float(y.dtype())) fail("{}: f must return f32 or f64; got {} {}", name, y.dtype(), y.shape());
  transform.check_argument_lives();
  const Shape shape = joined(name, y.shape(), x.shape());
  if (!y.recorded() || shape.elements() == 0) return zeros(shape, x.dtype());
  std::vector<Tensor> rows;
  for (Index element = 0; element < y.elements(); ++element) {
    transform.backward(y, unit(y, element), true);
    rows.push_back(reshape(transform.next_gradient(), Shape{1, x.elements()}));
  }
  return reshape(concat(rows, 0), shape);
}

}  // namespace capstan::detail
