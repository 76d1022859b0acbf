// Matrix products on raw memory: the one seam behind which large, small and narrow sizes have kernels of their own.
// Not for: broadcasting or shape checks (ops/matmul does those).
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/shape.h>

namespace capstan::kernels {

/// C [m, n] = A [m, k] · B [k, n], or C += A · B. Element (i, j) of A lies at a[i · a_row + j · a_column], and so for B;
/// strides are in elements and may be anything, 0 included; one stride of 1 is fast. No operand is copied whole.
/// The rows of C are dense: (i, j) at c[i · c_row + j], c_row ≥ n.
///
/// Any size may be 0; k = 0 gives zeros (or leaves C as it is when accumulating). Without `accumulate` C is not read.
/// C must not overlap A or B.
template <class T>
struct Product {
  Index m = 0, n = 0, k = 0;
  const T* a = nullptr;
  Index a_row = 0, a_column = 1;
  const T* b = nullptr;
  Index b_row = 0, b_column = 1;
  T* c = nullptr;
  Index c_row = 0;
  /// C += A · B instead of C = A · B.
  bool accumulate = false;
  /// [n], added to every row: C = A · B + bias. Null for none.
  const T* bias = nullptr;
};

/// Where the matrices of one item of a batch begin.
template <class T>
struct Operands {
  const T* a;
  const T* b;
  T* c;
};

/// One product. Runs on several threads where it is worth it, with the same bytes for any number of them; row i of C
/// depends on row i of A (and on B and the sizes) only, bit for bit.
template <class T>
void gemm(const Product<T>& product);

/// `batch` products of equal sizes and strides: item i takes its pointers from operands(i) instead of from `product`.
/// No two items may write to the same C. `operands` is called from several threads at once.
template <class T>
void gemm(const Product<T>& product, Index batch, FunctionRef<Operands<T>(Index item)> operands);

extern template void gemm(const Product<float>&);
extern template void gemm(const Product<double>&);
extern template void gemm(const Product<float>&, Index, FunctionRef<Operands<float>(Index)>);
extern template void gemm(const Product<double>&, Index, FunctionRef<Operands<double>(Index)>);

}  // namespace capstan::kernels
