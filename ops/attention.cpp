#include <capstan/autograd/format.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <cmath>
#include <limits>

namespace capstan {

namespace {

constexpr const char* name = "attention";

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias) {
  ops::require_defined(name, "q", q);
  ops::require_defined(name, "k", k);
  ops::require_defined(name, "v", v);
  ops::require_float(name, "q", q);
  ops::require_same_dtype(name, "q", q, "k", k);
  ops::require_same_dtype(name, "q", q, "v", v);
  const Shape &a = q.shape(), &b = k.shape(), &c = v.shape();
  if (a.rank() != 4 || b.rank() != 4 || c.rank() != 4)
    fail("attention: q, k, v must be [B, H, T, D]; got q {}, k {} and v {}", a, b, c);
  if (a[0] != b[0] || a[0] != c[0]) fail("attention: batches must agree; got q {}, k {} and v {}", a, b, c);
  if (b[1] != c[1]) fail("attention: k and v must have the same heads; got k {} and v {}", b, c);
  if (b[1] == 0 ? a[1] != 0 : a[1] % b[1] != 0)
    fail("attention: the heads of q must be a multiple of those of k; got q {} and k {}", a, b);
  if (a[3] != b[3]) fail("attention: q and k must have one head size D; got q {} and k {}", a, b);
  if (b[2] != c[2]) fail("attention: k and v must have one length Tk; got k {} and v {}", b, c);
  if (!bias.defined()) return;
  ops::require_same_dtype(name, "q", q, "bias", bias);
  const Shape scores{a[0], a[1], a[2], b[2]};
  bool fits = bias.rank() <= 4;
  for (int axis = 0; fits && axis < bias.rank(); ++axis) {
    const Index size = bias.shape()[axis];
    fits = size == 1 || size == scores[axis + 4 - bias.rank()];
  }
  if (!fits) fail("attention: bias must broadcast to the scores {}; got {}", scores, bias.shape());
}

/// x where `taken` is true and 0 elsewhere: a selection, so what stands elsewhere reaches nothing, be it NaN.
Tensor select(const Tensor& taken, const Tensor& x) { return taken.defined() ? where(taken, x, 0.0) : x; }

/// A shape comment that is checked.
Tensor shaped(Tensor x, const Shape& shape) {
  if (x.shape() != shape) fail("attention: an intermediate must be {}; got {}", shape, x.shape());
  return x;
}

}  // namespace

AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check(q, k, v, options.bias.values);
  const Index B = q.size(0), H = q.size(1), Tq = q.size(2), D = q.size(3);
  const Index Hkv = k.size(1), Tk = k.size(2), Dv = v.size(3);
  const Index rows = Hkv == 0 ? 0 : H / Hkv * Tq;  // queries of all heads that share a key head, one below the other
  const ResolvedMask may = resolve(options.mask, Shape{B, H, Tq, Tk}, Hkv);

  const Tensor queries = scale(select(may.queries, q), options.scale.value_or(1 / std::sqrt(static_cast<double>(D))));
  const Tensor keys = select(may.keys, k);
  const Tensor values = select(may.keys, v);

  const Tensor products = shaped(matmul(reshape(queries, Shape{B, Hkv, rows, D}), transpose(keys)), {B, Hkv, rows, Tk});
  Tensor scores = reshape(products, Shape{B, H, Tq, Tk});
  if (options.bias.values.defined()) scores = scores + options.bias.values;
  if (may.keep.defined()) scores = where(may.keep, scores, -std::numeric_limits<double>::infinity());

  // The softmax of a row without keys is NaN, so such rows go through it as zeros, and come out as zeros.
  const Tensor weights = shaped(select(may.queries, softmax(select(may.queries, scores))), {B, H, Tq, Tk});
  const Tensor kept = options.dropout ? dropout(weights, options.dropout->p, options.dropout->key) : weights;
  const Tensor mixed = shaped(matmul(reshape(kept, Shape{B, Hkv, rows, Tk}), values), {B, Hkv, rows, Dv});
  return {reshape(mixed, Shape{B, H, Tq, Dv}), weights};
}

}  // namespace capstan
