// Which instruction sets the kernels may use: lets tests run each one. Not for: users; the best one is chosen by itself.
#pragma once

#include <string>
#include <vector>

namespace capstan::kernels {

/// The targets that this build has and this processor supports, best first: "AVX3", "AVX2", "EMU128", …
std::vector<std::string> simd_targets();

/// Uses only this target from now on; an empty name stands for the best one. Not while kernels run.
void use_simd_target(const std::string& name);

}  // namespace capstan::kernels
