#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/loss_parts.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/require.h>
#include <capstan/ops/select.h>

#include <cmath>

#include <limits>

namespace capstan::ops {

Tensor column(const Tensor& x) {
  Shape shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}

std::optional<Index> possible_ignore(std::optional<Index> ignore) {
  using Limits = std::numeric_limits<std::int32_t>;
  return ignore && *ignore >= Limits::min() && *ignore <= Limits::max() ? ignore : std::nullopt;
}

void require_class_weights(std::string_view op, const char* argument, const Tensor& x, Index classes,
                           const Tensor& weights) {
  require_same_dtype(op, argument, x, "weights", weights);
  if (weights.recorded()) fail("{}: weights must be constants; got a recorded tensor; detach() it first", op);
  if (weights.shape() != Shape{classes}) fail("{}: weights must be [V] = [{}]; got {}", op, classes, weights.shape());
  const std::vector<double> list = weights.to_doubles();
  for (std::size_t c = 0; c < list.size(); ++c)
    if (!(list[c] >= 0) || std::isinf(list[c]))
      fail("{}: weights must be finite and not negative; got {} at [{}]", op, list[c], c);
}

double kept_weight(const Tensor& targets, std::optional<Index> ignore, const Tensor& weights) {
  if (!ignore && !weights.defined()) return static_cast<double>(targets.elements());
  const Tensor dense = targets.dense();
  const std::vector<double> weight = weights.defined() ? weights.to_doubles() : std::vector<double>();
  double total = 0;
  for (const std::int32_t id : dense.data<std::int32_t>())
    if (!ignore || id != *ignore) total += weight.empty() ? 1 : weight[static_cast<std::size_t>(id)];
  return total;
}

Tensor reduced(const Tensor& losses, Reduction reduction, double count) {
  if (reduction == Reduction::none) return losses;
  if (reduction == Reduction::sum || losses.elements() == 0) return sum(losses);
  // Selected, not multiplied by 0: what does not count may be infinite.
  if (count == 0) return where(full(Shape{}, 0, DType::boolean), sum(losses), 0.0);
  // Not the sum divided: it may overflow where the mean does not.
  const double share = static_cast<double>(losses.elements()) / count;
  return share == 1 ? mean(losses) : scale(mean(losses), share);
}

}  // namespace capstan::ops
