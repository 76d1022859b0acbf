#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/kernels/gemm.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>

#include <algorithm>

namespace capstan::ops {
namespace {

/// Steps of a and b from one product of a batch to the next, per leading axis of the result; 0 where an operand is stretched.
struct Batch {
  int axes = 0;
  Index count = 1;
  Index size[max_rank], a_step[max_rank], b_step[max_rank];

  Batch(const Layout& a, const Layout& b) : axes(std::max(a.rank(), b.rank()) - 2) {
    for (int axis = 0; axis < axes; ++axis) {
      const int in_a = axis - (axes + 2 - a.rank()), in_b = axis - (axes + 2 - b.rank());
      const Index a_size = in_a < 0 ? 1 : a.size(in_a), b_size = in_b < 0 ? 1 : b.size(in_b);
      size[axis] = a_size == 1 ? b_size : a_size;
      a_step[axis] = a_size == 1 ? 0 : a.stride(in_a);
      b_step[axis] = b_size == 1 ? 0 : b.stride(in_b);
      count *= size[axis];
    }
  }
};

/// An operand of at least two axes, the last two of which may be taken in the other order.
struct Matrix {
  const void* bytes;
  const Layout& layout;
  bool transposed = false;
  int rows() const { return layout.rank() - (transposed ? 1 : 2); }
  int columns() const { return layout.rank() - (transposed ? 2 : 1); }
};

/// c = a · b; c is row-major.
template <class T>
void multiply(const Matrix& left, const Matrix& right, T* c) {
  const Layout &a = left.layout, &b = right.layout;
  const int a_rows = a.rank() - 2, b_rows = b.rank() - 2;  // axes before the matrix
  kernels::Product<T> product;
  product.m = a.size(left.rows());
  product.k = a.size(left.columns());
  product.n = b.size(right.columns());
  product.a = static_cast<const T*>(left.bytes) + a.offset();
  product.a_row = a.stride(left.rows());
  product.a_column = a.stride(left.columns());
  product.b = static_cast<const T*>(right.bytes) + b.offset();
  product.b_row = b.stride(right.rows());
  product.b_column = b.stride(right.columns());
  product.c = c;
  product.c_row = product.n;
  const auto one_of = [](const Layout& x) {
    Index count = 1;
    for (int axis = 0; axis < x.rank() - 2; ++axis) count *= x.size(axis);
    return count == 1;
  };
  if (one_of(a) && one_of(b)) return kernels::gemm(product);
  if (b_rows == 0 && !left.transposed) {
    // One matrix for the whole batch: the batch's rows make one tall product if a's strides allow.
    Index rows = product.m;
    for (int axis = 0; axis < a_rows; ++axis) rows *= a.size(axis);
    if (const auto tall = a.reshaped({rows, product.k})) {
      product.m = rows;
      product.a_row = tall->stride(0);
      product.a_column = tall->stride(1);
      return kernels::gemm(product);
    }
  }
  const Batch batch(a, b);
  const auto operands = [&](Index item) {
    kernels::Operands<T> at{product.a, product.b, product.c + item * product.m * product.n};
    for (int axis = batch.axes - 1; axis >= 0; --axis) {
      const Index i = item % batch.size[axis];
      item /= batch.size[axis];
      at.a += i * batch.a_step[axis];
      at.b += i * batch.b_step[axis];
    }
    return at;
  };
  kernels::gemm<T>(product, batch.count, operands);
}

// A 1-D operand is a matrix with one row (on the left) or one column (on the right).
Layout left_matrix(const Layout& a) {
  if (a.rank() != 1) return a;
  const Index strides[] = {0, a.stride(0)};
  return Layout({1, a.size(0)}, strides, a.offset());
}
Layout right_matrix(const Layout& b) {
  if (b.rank() != 1) return b;
  const Index strides[] = {b.stride(0), 0};
  return Layout({b.size(0), 1}, strides, b.offset());
}

/// The leading axes of y: those of a and b, broadcast.
Shape leading_axes(std::string_view op, const Shape& a, const Shape& b) {
  const int a_axes = std::max(a.rank() - 2, 0), b_axes = std::max(b.rank() - 2, 0);
  const int axes = std::max(a_axes, b_axes);
  Shape leading;
  for (int axis = 0; axis < axes; ++axis) {
    const int in_a = axis - (axes - a_axes), in_b = axis - (axes - b_axes);
    const Index a_size = in_a < 0 ? 1 : a[in_a], b_size = in_b < 0 ? 1 : b[in_b];
    if (a_size != b_size && a_size != 1 && b_size != 1)
      fail("{}: leading axes must broadcast (equal sizes, or 1); got a {} and b {}", op, a, b);
    leading.push_back(a_size == 1 ? b_size : a_size);
  }
  return leading;
}

/// True if both are matrices, or batches of them, and nothing is stretched.
bool same_batch(const Shape& a, const Shape& b) {
  bool same = a.rank() >= 2 && a.rank() == b.rank();
  for (int axis = 0; same && axis < a.rank() - 2; ++axis) same = a[axis] == b[axis];
  return same;
}

/// a · b, or a · bᵀ.
template <bool nt>
struct MatMul final : Op {
  static constexpr std::string_view name = nt ? "matmul_nt" : "matmul";

  Reads reads(Wanted wanted) const override { return Reads::in(1).when(wanted[0]) | Reads::in(0).when(wanted[1]); }

  Types infer(Inputs in) const override {
    const Shape &a = in[0].shape(), &b = in[1].shape();
    require_float(name, "a", in[0]);
    require_same_dtype(name, "a", in[0], "b", in[1]);
    if (nt && (a.rank() < 2 || b.rank() < 2))
      fail("matmul_nt: operands must have at least two axes; got a {} and b {}", a, b);
    if (a.rank() == 0 || b.rank() == 0)
      fail("matmul: operands must have at least one axis; got a {} and b {}; multiply scalars by *", a, b);
    if (a.back() != b.back(nt || b.rank() == 1 ? 0 : 1))
      fail("{}: inner sizes must agree; got a {} and b {}", name, a, b);
    const Index columns = b.back(nt ? 1 : 0);
    Shape y;
    if (same_batch(a, b)) {
      y = a;
      y.set(a.rank() - 1, columns);
      return {Type{y, in[0].dtype()}};
    }
    if (a.rank() > 2 || b.rank() > 2) y = leading_axes(name, a, b);
    if (a.rank() > 1) y.push_back(a.back(1));
    if (b.rank() > 1) y.push_back(columns);
    return {Type{y, in[0].dtype()}};
  }

  void eval(Inputs in, Outputs out) const override {
    const ConstView a = in[0].view(), b = in[1].view();
    visit_float(out[0].dtype, [&](auto zero) {
      auto* y = out[0].data<decltype(zero)>();
      if (a.layout->rank() >= 2 && b.layout->rank() >= 2)
        return multiply({a.bytes, *a.layout}, {b.bytes, *b.layout, nt}, y);
      multiply({a.bytes, left_matrix(*a.layout)}, {b.bytes, right_matrix(*b.layout)}, y);
    });
  }

  // y = a b    ⇒   da = dy bᵀ, db = aᵀ dy
  // y = a bᵀ   ⇒   da = dy b,  db = dyᵀ a,   each summed over the leading axes that were stretched
  Tensors vjp(const Call& call) const override {
    const Shape a_shape = call.in_shape(0), b_shape = call.in_shape(1);
    const Shape a_matrix = a_shape.rank() == 1 ? Shape{1, a_shape[0]} : a_shape;
    const Shape b_matrix = b_shape.rank() == 1 ? Shape{b_shape[0], 1} : b_shape;
    Shape y_matrix = leading_axes(name, a_matrix, b_matrix);
    y_matrix.push_back(a_matrix.back(1));
    y_matrix.push_back(b_matrix.back(nt ? 1 : 0));
    const Tensor dy = reshape(call.dout(0), y_matrix);

    Tensor da, db;
    if (call.wants(0)) {
      const Tensor b = reshape(call.in(1), b_matrix);
      da = reshape(sum_to(matmul(dy, nt ? b : transpose(b)), a_matrix), a_shape);
    }
    if (call.wants(1)) {
      Tensor a = reshape(call.in(0), a_matrix), up = dy;
      if (b_matrix.rank() == 2) {
        // The sum over the batch is part of the product: all of its rows, one below the other.
        const Index rows = y_matrix.drop_back().elements();
        a = reshape(a, Shape{rows, a_matrix.back()});
        up = reshape(up, Shape{rows, y_matrix.back()});
      }
      db = reshape(sum_to(nt ? matmul(transpose(up), a) : matmul(transpose(a), up), b_matrix), b_shape);
    }
    return {std::move(da), std::move(db)};
  }

  // Where nothing was stretched, both products read their operands transposed in place.
  Tensors vjp_kernel(const Call& call) const override {
    const Shape a_shape = call.in_shape(0), b_shape = call.in_shape(1);
    if (!same_batch(a_shape, b_shape)) return vjp(call);
    const ConstView dy = call.dout(0).view();
    Tensors gradients;
    const View da = call.append_gradient(gradients, 0), db = call.append_gradient(gradients, 1);
    visit_float(dy.dtype, [&](auto zero) {
      using T = decltype(zero);
      if (da.layout) {
        const ConstView b = call.in(1).view();
        multiply({dy.bytes, *dy.layout}, {b.bytes, *b.layout, !nt}, da.data<T>());
      }
      if (db.layout) {
        const ConstView a = call.in(0).view();
        const Matrix as{a.bytes, *a.layout, !nt}, ups{dy.bytes, *dy.layout, nt};
        multiply(nt ? ups : as, nt ? as : ups, db.data<T>());
      }
    });
    return gradients;
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor matmul(const Tensor& a, const Tensor& b) { return ops::apply(ops::MatMul<false>{}, a, b); }
Tensor matmul_nt(const Tensor& a, const Tensor& b) { return ops::apply(ops::MatMul<true>{}, a, b); }

}  // namespace capstan
