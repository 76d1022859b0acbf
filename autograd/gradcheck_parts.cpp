#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck_parts.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace capstan::detail {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

bool overlaps_itself(const Layout& layout) {
  for (int axis = 0; axis < layout.rank(); ++axis)
    if (layout.size(axis) > 1 && layout.stride(axis) == 0) return true;
  return false;
}
}  // namespace

// ---- elements ---------------------------------------------------------------------------------------------------------

std::vector<Index> unravel(Index element, const Shape& shape) {
  std::vector<Index> index(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

Index position_of(const Layout& layout, Index element) {
  Index position = layout.offset();
  for (int axis = layout.rank() - 1; axis >= 0; --axis) {
    position += element % layout.size(axis) * layout.stride(axis);
    element /= layout.size(axis);
  }
  return position;
}

Tensor with_element(const Tensor& x, Index element, double value) {
  const bool dense = overlaps_itself(x.layout());
  const Layout layout = dense ? Layout(x.shape()) : x.layout();
  const std::size_t bytes = dense ? bytes_for(x.shape(), x.dtype()) : Access::storage(x)->bytes();
  StorageHandle storage = StorageHandle::adopt(Storage::create(bytes));
  auto* elements = static_cast<double*>(storage.get()->data());
  if (dense)
    std::ranges::copy(x.to_doubles(), elements);
  else
    std::memcpy(elements, x.view().bytes, bytes);
  elements[position_of(layout, element)] = value;
  return Access::make(std::move(storage), layout, x.dtype());
}

// ---- verdict ----------------------------------------------------------------------------------------------------------

void Verdict::compare(const Place& place, double analytic, double numeric, double contracted) {
  const double scale = std::max({1.0, std::abs(numeric), std::abs(contracted)});
  double error = std::abs(analytic - numeric) / scale;
  if (!std::isfinite(error)) error = infinity;
  double& worst = place.order == 1 ? report_.worst_first_order : report_.worst_second_order;
  worst = std::max(worst, error);
  ++report_.entries;
  if (error <= options_.tolerance || !worse(place.order, error)) return;
  report_.failure =
      fmt::format("{}; got {:.12g} by the rule and {:.12g} by differences, {:.3g} apart where {:.3g} is allowed",
                  sentence(place, "must equal its difference quotient"), analytic, numeric,
                  std::abs(analytic - numeric), options_.tolerance * scale);
}

void Verdict::compare_zero(const Place& place, double analytic) {
  ++report_.entries;
  if (analytic == 0 || !worse(place.order, infinity)) return;
  report_.failure = fmt::format("{}; got {:.12g} by the rule", sentence(place, "must be exactly 0"), analytic);
}

/// Notes a failure; true if it is the one to report until now.
bool Verdict::worse(int order, double error) {
  const bool first = report_.passed;
  report_.passed = false;
  if (!first && (order > failing_order_ || (order == failing_order_ && error <= worst_failure_))) return false;
  failing_order_ = order;
  worst_failure_ = error;
  return true;
}

std::string Verdict::sentence(const Place& place, const char* must) const {
  return fmt::format("{}: order {}, cotangent on {}: the derivative by {} at [{}] {}", options_.label, place.order,
                     place.cotangents, place.of, fmt::join(unravel(place.element, place.shape), ", "), must);
}

}  // namespace capstan::detail
