// The engine's own op: the sum of cotangents. With one term it is the identity, which gives a tensor a place of its own
// on the tape. Not for: sums over axes (ops/reduce.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// Σ terms, all of one shape and dtype (f32 or f64); at least one. d(term) = dy for each.
Tensor accumulate(std::span<const Tensor> terms);

namespace detail {
/// into += x, written in place: the caller is the only owner of `into`, which is dense and unrecorded.
void add_in_place(Tensor& into, const Tensor& x);
/// True if `x` may be overwritten: unrecorded, dense, and nobody else holds its storage.
bool exclusively_owned(const Tensor& x);
}  // namespace detail

}  // namespace capstan
