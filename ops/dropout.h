// Dropout with its randomness as an argument. Not for: evaluation (call nothing: without a key there is no dropout).
#pragma once

#include <capstan/autograd/random.h>
#include <capstan/autograd/tensor.h>

namespace capstan {

/// What drops: each element with probability p, by the bits of a key. For functions that drop inside (attention.h).
struct Dropout {
  double p = 0;
  Key key = {};
};

/// y_i = x_i / (1 − p) where element i is kept, else 0 (Srivastava et al. 2014, scaled while training). Element i, counted
/// in row-major order, is kept if Keep(key, p)(i) (random.h): the same elements in f32 and f64, for any memory layout and
/// any number of threads, forward and backward, called once or again. A selection: what is dropped reaches nothing, even
/// if it is NaN.   x [...] → [...], f32 or f64.   dx = dropout(dy, p, key).
/// p = 0 gives x itself. Use a key once: Generator::next() deals them.
/// dropout(tensor({1, 2, 3, 4}), 0.5, Key{3, 0}) = [2, 0, 6, 8].
/// Errors: p is outside [0, 1); x is not f32 or f64.
Tensor dropout(const Tensor& x, double p, Key key);

}  // namespace capstan
