// Lists and chooses among the instruction sets that Highway compiled.
#include <capstan/ops/kernels/simd.h>
#include <capstan/ops/kernels/simd_targets.h>

#include <hwy/highway.h>

namespace capstan::kernels {

std::vector<std::string> simd_targets() {
  hwy::SetSupportedTargetsForTest(0);  // 0 is its "as the processor says"
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

void use_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  std::int64_t chosen = hwy::SupportedTargets();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    if (name == hwy::TargetName(target)) chosen = target;
  hwy::GetChosenTarget().Update(chosen);
}

}  // namespace capstan::kernels
