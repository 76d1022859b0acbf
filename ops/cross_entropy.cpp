#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/cross_entropy.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <algorithm>
#include <limits>

namespace capstan::ops {
namespace {

/// x with a last axis of size 1, to broadcast against logits.
Tensor column(const Tensor& x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}

/// The losses of single tokens.
struct CrossEntropy final : Op {
  static constexpr std::string_view name = "cross_entropy";
  std::optional<Index> ignore;
  double smoothing;

  CrossEntropy(std::optional<Index> ignore_index, double label_smoothing)
      : ignore(ignore_index), smoothing(label_smoothing) {
    // A value that no i32 target can have ignores nothing.
    if (ignore &&
        (*ignore < std::numeric_limits<std::int32_t>::min() || *ignore > std::numeric_limits<std::int32_t>::max()))
      ignore.reset();
  }

  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }

  Types infer(Inputs in) const override {
    const Shape &logits = in[0].shape(), &targets = in[1].shape();
    require_float(name, "logits", in[0]);
    require_dtype(name, "targets", in[1], DType::i32);
    if (logits.rank() == 0 || logits.drop_back() != targets)
      fail("cross_entropy: logits must be [targets..., V]; got logits {} and targets {}", logits, targets);
    if (logits.back() == 0) fail("cross_entropy: logits must have at least one class; got {}", logits);
    if (!(smoothing >= 0 && smoothing <= 1))
      fail("cross_entropy: label_smoothing must be in [0, 1]; got {}", smoothing);
    return {Type{targets, in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "targets", in[1].view(), in[0].shape().back(), ignore);
    kernels::cross_entropy(in[0].view(), in[1].view(), kernel_ignore(), smoothing, out[0]);
  }

  // loss = log Σ exp(x) − Σ_c q_c x_c, q being the target distribution   ⇒   dx = dloss (softmax(x) − q)
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
    return {dloss * (softmax(x) - q), Tensor()};
  }
  Tensors vjp_kernel(const Call& call) const override {
    Buffer dx(call.in_shape(0), call.in_dtype(0));
    kernels::cross_entropy_backward(call.in(0).view(), call.in(1).view(), kernel_ignore(), smoothing,
                                    call.dout(0).view(), dx.view());
    return {Tensor(std::move(dx)), Tensor()};
  }

 private:
  // No i32 target has this value.
  std::int64_t kernel_ignore() const { return ignore.value_or(std::numeric_limits<std::int64_t>::min()); }
};

Index count_kept(const Tensor& targets, std::optional<Index> ignore) {
  if (!ignore) return targets.elements();
  const Tensor dense = targets.dense();
  const auto ids = dense.data<std::int32_t>();
  return static_cast<Index>(ids.size()) - std::count(ids.begin(), ids.end(), *ignore);
}

}  // namespace
}  // namespace capstan::ops

namespace capstan {

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const Tensor loss = ops::apply(ops::CrossEntropy(options.ignore_index, options.label_smoothing), logits, targets);
  if (options.reduction == Reduction::none) return loss;
  const Tensor total = sum(loss);
  if (options.reduction == Reduction::sum) return total;
  const Index kept = ops::count_kept(targets, options.ignore_index);
  return kept == 0 ? scale(total, 0) : total / static_cast<double>(kept);
}

}  // namespace capstan
