// Highway's configuration, included before any of its headers. Not for: headers that users see; .cpp files of kernels
// only, each compiled once for every target below and dispatched at run time:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE <capstan/ops/kernels/this_file.cpp>
//   #include <capstan/ops/kernels/simd.h>
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
#pragma once

// x86: AVX-512 (AVX3), AVX2, and plain C++ in groups of 128 bits (EMU128) for older ones. The targets in between would
// double the time to compile and serve no machine of the last ten years; AVX3_DL adds nothing that we use.
// The targets with vectors of unknown size are left out, because tiles of vectors live in arrays here: Arm runs NEON.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// Highway 1.0.3 takes g++ 12 to be unable to compile EMU128 and would fall back to a target with a single lane, without
// the operations that combine lanes. It does compile, and the tests run every target.
#define HWY_BROKEN_EMU128 0
