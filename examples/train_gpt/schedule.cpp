// See schedule.h.
#include "schedule.h"

#include <cmath>
#include <numbers>

namespace capstan::train_gpt {

double Schedule::operator()(std::int64_t step) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (step >= steps) return lowest;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return lowest + (peak - lowest) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace capstan::train_gpt
