#include <capstan/nn/schedule.h>

#include <cmath>
#include <numbers>

namespace capstan::nn {

double CosineWithWarmup::operator()(Index step) const {
  if (warmup > 0 && step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (step >= steps) return lowest;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return lowest + (peak - lowest) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace capstan::nn
