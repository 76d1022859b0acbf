#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/loss_parts.h>
#include <capstan/ops/losses.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

#include <limits>

namespace capstan {
namespace {

/// Both f32 or both f64, of one shape.
void require_alike(const char* op, const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  ops::require_defined(op, a_name, a);
  ops::require_defined(op, b_name, b);
  ops::require_float(op, a_name, a);
  ops::require_same_dtype(op, a_name, a, b_name, b);
  if (a.shape() != b.shape())
    fail("{}: {} and {} must have one shape; got {} and {}; reshape one of them", op, a_name, b_name, a.shape(),
         b.shape());
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return ops::reduced(losses, reduction, static_cast<double>(losses.elements()));
}

/// x · factor, if there is one; it may be smaller than x, but not stretch it.
Tensor weighted(const char* op, const char* argument, const Tensor& x, const Tensor& factor) {
  if (!factor.defined()) return x;
  ops::require_same_dtype(op, "logits", x, argument, factor);
  if (!ops::stretches(factor.shape(), x.shape()))
    fail("{}: {} must broadcast to the logits' shape; got {} and logits {}", op, argument, factor.shape(), x.shape());
  return x * factor;
}

}  // namespace

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllLossOptions& options) {
  const char* const name = "nll_loss";
  ops::require_defined(name, "log_probabilities", log_probabilities);
  ops::require_defined(name, "targets", targets);
  ops::require_float(name, "log_probabilities", log_probabilities);
  ops::require_dtype(name, "targets", targets, DType::i32);
  const Shape& shape = log_probabilities.shape();
  if (shape.rank() == 0 || shape.drop_back() != targets.shape())
    fail("nll_loss: log_probabilities must be [targets..., V]; got log_probabilities {} and targets {}", shape,
         targets.shape());
  if (options.weights.defined())
    ops::require_class_weights(name, "log_probabilities", log_probabilities, log_probabilities.shape().back(),
                               options.weights);
  const std::optional<Index> ignore = ops::possible_ignore(options.ignore_index);
  ops::require_ids(name, "targets", targets.view(), shape.back(), ignore);

  // Selected, not multiplied by 0: the other classes may be −∞.
  const Tensor chosen = equal(ops::column(targets), arange(shape.back()));
  Tensor loss = -sum(where(chosen, log_probabilities, 0.0), -1);
  if (options.weights.defined()) {
    const Tensor weight = sum(where(chosen, options.weights, 0.0), -1);
    loss = where(not_equal(weight, 0.0), loss * weight, 0.0);
  }
  if (ignore) loss = where(equal(targets, static_cast<double>(*ignore)), 0.0, loss);
  if (options.reduction != Reduction::mean) return ops::reduced(loss, options.reduction, 1);
  return ops::reduced(loss, Reduction::mean, ops::kept_weight(targets, ignore, options.weights));
}

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  require_alike("mse_loss", "x", x, "y", y);
  const Tensor error = x - y;
  return reduced(error * error, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options) {
  const char* const name = "binary_cross_entropy_with_logits";
  require_alike(name, "logits", logits, "targets", targets);
  // −log σ(x) = softplus(−x), −log(1 − σ(x)) = softplus(x)
  const Tensor positive = weighted(name, "positive_weight", targets * softplus(-logits), options.positive_weight);
  const Tensor loss = positive + (1.0 - targets) * softplus(logits);
  return reduced(weighted(name, "weights", loss, options.weights), options.reduction);
}

Tensor kl_div(const Tensor& log_probabilities, const Tensor& targets, const KlDivOptions& options) {
  require_alike("kl_div", "log_probabilities", log_probabilities, "targets", targets);
  // Selected before the logarithm and after the product: where t is 0, neither log t nor x = −∞ may come out.
  const Tensor possible =
      options.log_target ? not_equal(targets, -std::numeric_limits<double>::infinity()) : not_equal(targets, 0.0);
  const Tensor t = where(possible, targets, options.log_target ? 0.0 : 1.0);
  const Tensor terms = options.log_target ? exp(t) * (t - log_probabilities) : t * (log(t) - log_probabilities);
  return reduced(where(possible, terms, 0.0), options.reduction);
}

}  // namespace capstan
