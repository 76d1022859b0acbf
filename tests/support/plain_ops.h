// A few ops of the tests' own, made with `record` alone: what the engine and the gradient check are tested with, so that
// those tests stand without the catalogue. Naive loops, f32 and f64. Not for: speed, or tests of the catalogue.
#pragma once

#include <capstan/autograd/op.h>

#include <vector>

namespace capstan::test::plain {

/// x as an op's eval sees it: element i in row-major order, converted to double.
std::vector<double> numbers(const Tensor& x);
/// Writes numbers to an output of any dtype.
void write(const View& out, const std::vector<double>& numbers);

// a and b of one shape and dtype, each op recorded under the name "plain_…".
Tensor add(const Tensor& a, const Tensor& b);           ///< reads nothing
Tensor mul(const Tensor& a, const Tensor& b);           ///< reads b if da is wanted, a if db is
Tensor scale(const Tensor& x, double factor);           ///< factor · x; reads nothing
Tensor tanh(const Tensor& x);                           ///< reads its output
Tensor sum(const Tensor& x);                            ///< → [] ; reads nothing
Tensor fill(const Tensor& scalar, const Shape& shape);  ///< [] → shape, stride 0 (a view)
Tensor matmul(const Tensor& a, const Tensor& b);        ///< [M, K] · [K, N]
Tensor transpose(const Tensor& x);                      ///< [M, N] → [N, M], a view
Tensor square(const Tensor& x);                         ///< mul(x, x)

}  // namespace capstan::test::plain
