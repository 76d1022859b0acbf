// Threads for kernels: fixed blocks of work, run by the caller and by worker threads of our own.
// Not for: splitting by the number of threads. Blocks come from the problem alone, so results have the same bytes for
// any thread count.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/shape.h>

#include <algorithm>
#include <cstdint>

namespace capstan::kernels {

/// What a parallel region works on; one counter each.
enum class Region : std::uint8_t {
  gemm,
  elementwise,
  copy,
  reduce,
  softmax,
  layer_norm,
  cross_entropy,
  embedding,
  optimizer,
  random,
  attention,
  other,
};
inline constexpr int region_kinds = static_cast<int>(Region::other) + 1;

/// "gemm", "elementwise", …
const char* name_of(Region region);

/// Threads that a region may use, the caller's included: OMP_NUM_THREADS if it is set, else the processors that this
/// process may run on. At least 1.
int thread_count();
/// Replaces thread_count() from now on, for the whole process (tests compare 1, 2 and 4). Less than 1 counts as 1.
void set_thread_count(int threads);

/// Calls body(block) once for each block in [0, blocks), in any order, on up to thread_count() threads. Runs on the
/// calling thread alone if there is one block or one thread, inside another region, or while another thread's region
/// has the workers. If blocks throw, all of those that started still end, and the exception of the smallest throwing
/// block that ran is rethrown here.
void parallel_for(Region region, Index blocks, FunctionRef<void(Index block)> body);

/// How many regions of this kind were open to more than one thread since the process began.
std::uint64_t parallel_regions(Region region);

/// A grain of at most `grain`, but for rounding to cache lines, with which `count` elements make an even number of equal
/// pieces: of two threads none has one piece more.
constexpr Index even_grain(Index count, Index grain) {
  if (count <= grain) return grain;
  const Index pieces = 2 * ((count + 2 * grain - 1) / (2 * grain));
  return ((count + pieces - 1) / pieces + 15) / 16 * 16;
}

/// Calls body(begin, end) for consecutive pieces of [0, count) of `grain` items each (the last one may be shorter).
/// Choose the grain so that a piece is worth some 20 µs: less is lost to the fork and join.
template <class Body>
void parallel_blocks(Region region, Index count, Index grain, Body&& body) {
  if (count <= 0) return;
  if (count <= grain) {
    body(Index{0}, count);
    return;
  }
  const Index blocks = (count + grain - 1) / grain;
  parallel_for(region, blocks, [&](Index block) {
    const Index begin = block * grain;
    body(begin, std::min(count, begin + grain));
  });
}

}  // namespace capstan::kernels
