#include <capstan/autograd/format.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/gather.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/gather.h>
#include <capstan/ops/require.h>

namespace capstan::ops {
namespace {

struct Gather final : Op {
  static constexpr std::string_view name = "gather";
  int axis;  // in [0, rank)

  explicit Gather(int axis_) : axis(axis_) {}

  Reads reads(Wanted) const override { return Reads::in(1); }
  Types infer(Inputs in) const override {
    require_dtype(name, "ids", in[1], DType::i32);
    const Shape &x = in[0].shape(), &ids = in[1].shape();
    bool fits = ids.rank() == x.rank();
    for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || ids[i] == x[i];
    if (!fits) fail("gather: ids must have x's sizes but for axis {}; got ids {} for x {}", axis, ids, x);
    return {Type{ids, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "ids", in[1].view(), in[0].shape()[axis]);
    kernels::gather(in[0].view(), axis, in[1].view(), out[0]);
  }

  // y_m = Σ_n [ids_m = n] x_n   ⇒   dx_n = Σ_m [ids_m = n] dy_m
  Tensors vjp(const Call& c) const override {
    return {scatter_add(c.dout(0), axis, c.in(1), c.in_shape(0)[axis]), Tensor()};
  }
};

struct ScatterAdd final : Op {
  static constexpr std::string_view name = "scatter_add";
  int axis;  // in [0, rank)
  Index size;

  ScatterAdd(int axis_, Index size_) : axis(axis_), size(size_) {}

  Reads reads(Wanted) const override { return Reads::in(1); }
  Types infer(Inputs in) const override {
    require_float(name, "src", in[0]);
    require_dtype(name, "ids", in[1], DType::i32);
    if (in[0].shape() != in[1].shape())
      fail("scatter_add: ids must have src's shape; got ids {} for src {}", in[1].shape(), in[0].shape());
    if (size < 0) fail("scatter_add: size must not be negative; got {}", size);
    Shape y = in[0].shape();
    y.set(axis, size);
    return {Type{y, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "ids", in[1].view(), size);
    kernels::scatter_add(in[0].view(), axis, in[1].view(), out[0]);
  }

  // y_n = Σ_m [ids_m = n] src_m   ⇒   dsrc_m = dy_n for n = ids_m
  Tensors vjp(const Call& c) const override { return {gather(c.dout(0), axis, c.in(1)), Tensor()}; }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor gather(const Tensor& x, int axis, const Tensor& ids) {
  ops::require_defined("gather", "x", x);
  return ops::apply(ops::Gather(x.shape().axis("gather", axis)), x, ids);
}

Tensor scatter_add(const Tensor& src, int axis, const Tensor& ids, Index size) {
  ops::require_defined("scatter_add", "src", src);
  return ops::apply(ops::ScatterAdd(src.shape().axis("scatter_add", axis), size), src, ids);
}

}  // namespace capstan
