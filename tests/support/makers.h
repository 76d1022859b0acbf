// Small tensors that tests make again and again. Not for: reference values (golden.h).
#pragma once

#include <capstan/autograd/create.h>

namespace capstan::test {

/// A scalar of f64.
inline Tensor number(double value) { return tensor(value, DType::f64); }
/// Standard normal numbers of f64.
inline Tensor random(std::uint64_t seed, const Shape& shape) {
  return normal(Key{.seed = seed}, shape, 0, 1, DType::f64);
}

}  // namespace capstan::test
