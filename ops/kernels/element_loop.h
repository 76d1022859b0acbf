// The loop under every elementwise kernel: broadcasts and collapses axes, then hands out dense pieces.
// Not for: reductions; users.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/view.h>
#include <capstan/ops/kernels/parallel.h>

#include <initializer_list>

namespace capstan::kernels {

inline constexpr int max_inputs = 3;

/// `count` consecutive elements: dense outputs, and inputs that are dense or one value for all of them.
struct Piece {
  Index count = 0;
  void* out = nullptr;
  const void* in[max_inputs] = {};
  bool scalar[max_inputs] = {};

  template <class T>
  T* output() const {
    return static_cast<T*>(out);
  }
  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(in[i]);
  }
};

/// Calls body for pieces that cover y once, on several threads if there are more than `grain` elements. Operands that
/// are not dense pass through small buffers, so body sees nothing of strides.
void for_pieces(Region region, View y, std::initializer_list<ConstView> inputs, Index grain,
                FunctionRef<void(const Piece&)> body);

/// Elements a task, for loops bound by memory · by arithmetic · by libm.
inline constexpr Index cheap_grain = 32768, costly_grain = 8192, libm_grain = 2048;

}  // namespace capstan::kernels
