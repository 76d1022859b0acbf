#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/cross_entropy.h>
#include <capstan/ops/loss_parts.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <limits>

namespace capstan::ops {
namespace {

/// The losses of single tokens. Class weights, if any, are input 2.
struct CrossEntropy final : Op {
  static constexpr std::string_view name = "cross_entropy";
  std::optional<Index> ignore;
  double smoothing;
  bool weighted;

  CrossEntropy(std::optional<Index> ignore_index, double label_smoothing, bool with_weights)
      : ignore(possible_ignore(ignore_index)), smoothing(label_smoothing), weighted(with_weights) {}

  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1) | Reads::in(2).when(weighted); }

  Types infer(Inputs in) const override {
    const Shape &logits = in[0].shape(), &targets = in[1].shape();
    require_float(name, "logits", in[0]);
    require_dtype(name, "targets", in[1], DType::i32);
    if (logits.rank() == 0 || logits.drop_back() != targets)
      fail("cross_entropy: logits must be [targets..., V]; got logits {} and targets {}", logits, targets);
    if (logits.back() == 0) fail("cross_entropy: logits must have at least one class; got {}", logits);
    if (!(smoothing >= 0 && smoothing <= 1))
      fail("cross_entropy: label_smoothing must be in [0, 1]; got {}", smoothing);
    if (weighted) require_class_weights(name, "logits", in[0], logits.back(), in[2]);
    return {Type{targets, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "targets", in[1].view(), in[0].shape().back(), ignore);
    kernels::cross_entropy(in[0].view(), in[1].view(), weighted ? in[2].view() : ConstView{}, kernel_ignore(),
                           smoothing, out[0]);
  }

  // loss = W log Σ exp(x) − Σ_c w_c q_c x_c, q being the target distribution and W = Σ_c w_c q_c (1 without weights)
  //   ⇒   dx = dloss (W softmax(x) − w q)
  // An ignored token's row is selected away before and its cotangent after, so that nothing in it matters, NaN included.
  Tensors vjp(const Call& call) const override {
    const Index classes = call.in_shape(0).back();
    Tensor x = call.in(0), ids = call.in(1), dloss = column(call.dout(0));
    if (ignore) {
      const Tensor counts = not_equal(ids, static_cast<double>(*ignore));
      ids = where(counts, ids, 0.0);
      x = where(column(counts), x, 0.0);
      dloss = where(column(counts), dloss, 0.0);
    }
    const Tensor q = scale(one_hot(ids, classes, x.dtype()), 1 - smoothing, smoothing / static_cast<double>(classes));
    if (!weighted) return {dloss * (softmax(x) - q), Tensor()};
    const Tensor wq = call.in(2) * q;
    return {dloss * (sum(wq, -1, keep_axes) * softmax(x) - wq), Tensor(), Tensor()};
  }
  // In place of the logits, if nobody else needs them: they are often the largest tensor of a model.
  Tensors vjp_kernel(const Call& call) const override {
    Tensor logits = call.take_in(0);
    const bool in_place = logits.defined();
    Buffer dx = in_place ? std::move(logits).to_buffer() : call.new_gradient(0);
    kernels::cross_entropy_backward(in_place ? dx.view() : call.in(0).view(), call.in(1).view(),
                                    weighted ? call.in(2).view() : ConstView{}, kernel_ignore(), smoothing,
                                    call.dout(0).view(), dx.view());
    Tensors gradients = {std::move(dx), Tensor()};
    if (weighted) gradients.push_back(Tensor());
    return gradients;
  }

 private:
  // No i32 target has this value.
  std::int64_t kernel_ignore() const { return ignore.value_or(std::numeric_limits<std::int64_t>::min()); }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor& weights = options.weights;
  const ops::CrossEntropy op(options.ignore_index, options.label_smoothing, weights.defined());
  const Tensor loss = weights.defined() ? ops::apply(op, logits, targets, weights) : ops::apply(op, logits, targets);
  if (options.reduction != Reduction::mean) return ops::reduced(loss, options.reduction, 1);
  return ops::reduced(loss, Reduction::mean, ops::kept_weight(targets, options.ignore_index, weights));
}

}  // namespace capstan
