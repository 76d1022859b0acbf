#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/gradient_sum.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/embedding.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

namespace capstan::ops {
namespace {

void require_padding(std::string_view op, std::optional<Index> padding_id, Index rows) {
  if (padding_id && (*padding_id < 0 || *padding_id >= rows))
    fail("{}: padding_id must be in [0, {}); got {}", op, rows, *padding_id);
}

struct Embedding final : Op {
  static constexpr std::string_view name = "embedding";
  std::optional<Index> padding_id;

  explicit Embedding(std::optional<Index> padding) : padding_id(padding) {}

  Reads reads(Wanted) const override { return Reads::in(1); }

  Types infer(Inputs in) const override {
    require_float(name, "table", in[0]);
    require_dtype(name, "ids", in[1], DType::i32);
    if (in[0].rank() != 2) fail("embedding: table must be [V, C]; got {}", in[0].shape());
    require_padding(name, padding_id, in[0].shape()[0]);
    Shape y = in[1].shape();
    y.push_back(in[0].shape()[1]);
    return {Type{y, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "ids", in[1].view(), in[0].shape()[0]);
    kernels::gather_rows(in[0].view(), in[1].view(), out[0]);
  }

  // y = E table with E_iv = [ids_i = v]   ⇒   dtable = Eᵀ dy, the padding row left out
  Tensors vjp(const Call& call) const override {
    return {embedding_transpose(call.dout(0), call.in(1), call.in_shape(0)[0], padding_id), Tensor()};
  }
  // A table that other ops use too (a tied head) has a gradient already: only the rows of `ids` are touched then.
  Tensors vjp_kernel(const Call& call) const override {
    GradientSum dtable(call, 0);
    kernels::scatter_rows(call.dout(0).view(), call.in(1).view(), padding_id, dtable.adds, dtable.buffer.view());
    return {std::move(dtable.buffer), Tensor()};
  }
};

struct EmbeddingTranspose final : Op {
  static constexpr std::string_view name = "embedding_transpose";
  Index rows;
  std::optional<Index> padding_id;

  EmbeddingTranspose(Index rows_, std::optional<Index> padding) : rows(rows_), padding_id(padding) {}

  Reads reads(Wanted) const override { return Reads::in(1); }

  Types infer(Inputs in) const override {
    const Shape &x = in[0].shape(), &ids = in[1].shape();
    require_float(name, "x", in[0]);
    require_dtype(name, "ids", in[1], DType::i32);
    if (x.rank() == 0 || x.drop_back() != ids)
      fail("embedding_transpose: x must be [ids..., C]; got x {} and ids {}", x, ids);
    if (rows < 0) fail("embedding_transpose: rows must not be negative; got {}", rows);
    require_padding(name, padding_id, rows);
    return {Type{Shape{rows, x.back()}, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "ids", in[1].view(), rows);
    kernels::scatter_rows(in[0].view(), in[1].view(), padding_id, false, out[0]);
  }

  // table = Eᵀ x, the places with padding_id left out   ⇒   dx = E dtable, and 0 at those places
  Tensors vjp(const Call& call) const override {
    const Tensor& ids = call.in(1);
    const Tensor dx = embedding(call.dout(0), ids);
    if (!padding_id) return {dx, Tensor()};
    Shape column = ids.shape();
    column.push_back(1);
    return {where(reshape(equal(ids, static_cast<double>(*padding_id)), column), 0.0, dx), Tensor()};
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<Index> padding_id) {
  return ops::apply(ops::Embedding(padding_id), table, ids);
}

Tensor embedding_transpose(const Tensor& x, const Tensor& ids, Index rows, std::optional<Index> padding_id) {
  return ops::apply(ops::EmbeddingTranspose(rows, padding_id), x, ids);
}

}  // namespace capstan
