// Lists and chooses among the instruction sets that Highway compiled.
#include <capstan/autograd/format.h>
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/simd_targets.h>

#include <hwy/highway.h>

namespace capstan::kernels {
namespace {
/// Empty: the best one.
std::string& chosen() {
  static std::string name;
  return name;
}
}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() { return chosen().empty() ? simd_targets().front() : chosen(); }

void use_simd_target(const std::string& name) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    if (name == hwy::TargetName(target)) {
      hwy::GetChosenTarget().Update(target);
      chosen() = name;
      return;
    }
  fail("simd: the target must be one of {}; got '{}'", fmt::join(simd_targets(), ", "), name);
}

}  // namespace capstan::kernels
