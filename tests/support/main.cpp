// main() of every test program: GoogleTest's, on the instruction set that the environment variable CAPSTAN_SIMD names (AVX2 on a
// machine that has AVX-512), so that tests/run can show that the older kernels pass too.
#include <capstan/ops/kernels/simd_targets.h>
#include <gtest/gtest.h>

#include <cstdlib>

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (const char* name = std::getenv("CAPSTAN_SIMD"); name != nullptr && *name != '\0')
    capstan::kernels::use_simd_target(name);
  return RUN_ALL_TESTS();
}
