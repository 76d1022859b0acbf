#include <capstan/autograd/format.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/kernels/attention.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
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

/// x where `taken` is true, if it is given, and 0 elsewhere: a selection, so what stands elsewhere reaches nothing, be it NaN.
class Selected {
 public:
  Selected(const Tensor& taken, const Tensor& x) : x_(&x) {
    if (taken.defined()) x_ = &(selection_ = where(taken, x, 0.0));
  }
  Selected(const Selected&) = delete;
  operator const Tensor&() const { return *x_; }

 private:
  Tensor selection_;
  const Tensor* x_;
};

/// What the reference makes on its way.
struct Composed {
  Tensor output, weights;
  Tensor scores, keep;  // scores of all pairs; where `keep`, if there is one, is false they do not count
};

Composed compose(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Index B = q.size(0), H = q.size(1), Tq = q.size(2), D = q.size(3);
  const Index Hkv = k.size(1), Tk = k.size(2), Dv = v.size(3);
  const ResolvedMask may = resolve(options.mask, Shape{B, H, Tq, Tk}, Hkv);

  // Heads that share a key head stand one below the other in products: [B, Hkv, rows, ·].
  const bool grouped = H != Hkv;
  const Index rows = Hkv == 0 ? 0 : H / Hkv * Tq;

  Tensor queries = scale(Selected(may.queries, q), options.scale.value_or(1 / std::sqrt(static_cast<double>(D))));
  if (grouped) queries = reshape(queries, Shape{B, Hkv, rows, D});
  Tensor scores = matmul_nt(queries, Selected(may.keys, k));
  if (grouped) scores = reshape(scores, Shape{B, H, Tq, Tk});
  if (options.bias.values.defined()) scores = scores + options.bias.values;

  Tensor weights = may.keep.defined() ? masked_softmax(scores, may.keep) : softmax(scores);
  const Tensor* kept = &weights;
  Tensor dropped, stacked;
  if (options.dropout) kept = &(dropped = dropout(weights, options.dropout->p, options.dropout->key));
  if (grouped) kept = &(stacked = reshape(*kept, Shape{B, Hkv, rows, Tk}));
  Tensor output = matmul(*kept, Selected(may.keys, v));
  if (grouped) output = reshape(output, Shape{B, H, Tq, Dv});
  // It is 0 there already; its cotangent, which may be NaN, becomes so.
  if (may.queries.defined()) output = where(may.queries, output, 0.0);
  return {std::move(output), std::move(weights), std::move(scores), may.keep};
}

Shape scores_of(const Tensor& q, const Tensor& k) { return {q.size(0), q.size(1), q.size(2), k.size(2)}; }

/// Inputs: q, k, v, and those of bias, lengths and keep tensor that there are.
struct Attention final : Op {
  static constexpr std::string_view name = "attention";
  double scale;
  Mask::Band band;
  Dropout dropped;  // p = 0: nothing
  bool has_bias, has_lengths, has_keep;

  Attention(const Tensor& q, const Shape& scores, const AttentionOptions& options)
      : scale(options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))))),
        band(options.mask.band(scores)),
        dropped(options.dropout.value_or(Dropout{})),
        has_bias(options.bias.values.defined()),
        has_lengths(options.mask.lengths().defined()),
        has_keep(options.mask.kept().defined()) {}

  static constexpr int bias_at = 3;
  int lengths_at() const { return 3 + has_bias; }
  int keep_at() const { return 3 + has_bias + has_lengths; }
  int inputs() const { return 3 + has_bias + has_lengths + has_keep; }

  Reads reads(Wanted) const override {
    return {Reads::bit(inputs()) - 1, Reads::bit(2) - 1};  // all of them
  }
  Types infer(Inputs in) const override {
    const Shape& q = in[0].shape();
    Types types(Type{q, in[0].dtype()}, Type{Shape::trusted(q.begin(), 3), in[0].dtype()});
    types[0].shape.set(3, in[2].shape()[3]);
    return types;
  }

  /// The kernel's view of inputs; layouts that it points to live here.
  struct Problem : kernels::AttentionProblem {
    Layout stretched_keep, stretched_bias;
    Problem(const Problem&) = delete;
    template <class At>
    Problem(const Attention& op, const At& at) {
      q = at(0).view();
      k = at(1).view();
      v = at(2).view();
      scale = op.scale;
      low = op.band.low;
      high = op.band.high;
      if (op.has_bias) {
        stretched_bias = at(bias_at).layout().broadcast_to(scores_of(at(0), at(1)));
        bias = {at(bias_at).view().bytes, &stretched_bias, at(bias_at).dtype()};
      }
      if (op.has_lengths) lengths = at(op.lengths_at()).view();
      if (op.has_keep) {
        stretched_keep = at(op.keep_at()).layout().broadcast_to(scores_of(at(0), at(1)));
        keep = {at(op.keep_at()).view().bytes, &stretched_keep, DType::boolean};
      }
      if (op.dropped.p > 0) {
        dropout = Keep(op.dropped.key, op.dropped.p);
        dropout_factor = 1 / (1 - op.dropped.p);
      }
    }
  };
  void eval(Inputs in, Outputs out) const override {
    const Problem problem(*this, [&](int i) -> const Tensor& { return in[i]; });
    kernels::attention(problem, out[0], out[1]);
  }

  // The reference on the same inputs, differentiated by its ops' own rules: so every order exists. With P the weights:
  // dV = Pᵀ dO;  dS = P ⊙ (dO Vᵀ − rowsum(dO ⊙ O)) + P ⊙ dlogsumexp;  dQ = scale dS K;  dK = scale dSᵀ Q;  dbias = dS
  Tensors vjp(const Call& call) const override {
    detail::Transform transform("attention");
    Tensor x[4];
    const int differentiable = 3 + has_bias;
    for (int i = 0; i < differentiable; ++i) transform.consider(call.in(i));
    for (int i = 0; i < differentiable; ++i) x[i] = call.wants(i) ? transform.watch(call.in(i)) : call.in(i);
    AttentionOptions options{.mask = Mask::diagonals(band.low, band.high), .bias = {x[bias_at]}, .scale = scale};
    if (has_lengths) options.mask = options.mask & Mask::padding(call.in(lengths_at()));
    if (has_keep) options.mask = options.mask & Mask::keep(call.in(keep_at()));
    // A query whose biases are all −∞ has no key, where softmax would say NaN.
    constexpr double nothing = -std::numeric_limits<double>::infinity();
    if (has_bias) options.mask = options.mask & Mask::keep(not_equal(call.in(bias_at), nothing));
    if (dropped.p > 0) options.dropout = dropped;
    const Composed composed = compose(x[0], x[1], x[2], options);
    Tensor roots[2], cotangents[2];
    if (call.has_dout(0)) {
      roots[0] = composed.output;
      cotangents[0] = call.dout(0);
    }
    if (call.has_dout(1)) {
      const Tensor& keep = composed.keep;
      roots[1] = logsumexp(keep.defined() ? where(keep, composed.scores, nothing) : composed.scores, -1);
      cotangents[1] = call.dout(1);
    }
    transform.backward(roots, cotangents);
    Tensors gradients;
    gradients.resize(call.inputs());
    for (int i = 0; i < differentiable; ++i)
      if (call.wants(i)) gradients[i] = transform.next_gradient();
    return gradients;
  }

  // Recomputes the weights tile by tile from the logsumexp.
  Tensors vjp_kernel(const Call& call) const override {
    if (call.has_dout(1)) return vjp(call);
    const Problem problem(*this, [&](int i) -> const Tensor& { return call.in(i); });
    Tensors gradients;
    gradients.reserve(call.inputs());
    View d[3];
    for (int i = 0; i < 3; ++i) d[i] = call.append_gradient(gradients, i);
    std::optional<Buffer> dbias;  // for each pair
    if (has_bias && call.wants(bias_at)) dbias.emplace(scores_of(call.in(0), call.in(1)), call.in_dtype(0));
    kernels::attention_backward(problem, call.out(0).view(), call.out(1).view(), call.dout(0).view(), d[0], d[1], d[2],
                                dbias ? dbias->view() : View{});
    gradients.resize(call.inputs());
    if (dbias) gradients[bias_at] = sum_to(Tensor(std::move(*dbias)), call.in_shape(bias_at));
    return gradients;
  }
};

}  // namespace

AttentionResult attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  check(q, k, v, options.bias.values);
  Composed composed = compose(q, k, v, options);
  return {std::move(composed.output), std::move(composed.weights)};
}

FusedAttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  check(q, k, v, options.bias.values);
  const Shape scores = scores_of(q, k);
  const Mask& mask = options.mask;
  if (mask.lengths().defined() || mask.kept().defined()) mask.keep_shape(scores);  // for its errors; else band has them
  if (options.dropout && !(options.dropout->p >= 0 && options.dropout->p < 1))
    fail("dropout: p must be in [0, 1); got {}", options.dropout->p);
  const Tensor* inputs[6] = {&q, &k, &v};
  int count = 3;
  for (const Tensor* x : {&options.bias.values, &mask.lengths(), &mask.kept()})
    if (x->defined()) inputs[count++] = x;
  Tensors outputs = ops::apply_all(Attention(q, scores, options), Inputs(inputs, count));
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace capstan
