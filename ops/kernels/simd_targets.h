// Which instruction sets the kernels may use: lets tests run each one. Not for: users; the best one is chosen by itself.
#pragma once

#include <string>
#include <vector>

namespace capstan::kernels {

/// The targets that this build has and this processor supports, best first: "AVX3" (AVX-512), "AVX2", "EMU128", …
std::vector<std::string> simd_targets();

/// The one in use: the best, unless another was chosen.
std::string simd_target();

/// Uses only this target from now on; an Error if it is none of simd_targets(). Not while kernels run.
void use_simd_target(const std::string& name);

}  // namespace capstan::kernels
