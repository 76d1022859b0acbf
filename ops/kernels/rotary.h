// Turning pairs of elements by angles that grow with the position (Su et al. 2021). Not for: shape checks (the op).
#pragma once

#include <capstan/autograd/view.h>

#include <cstdint>

namespace capstan::kernels {

/// Which elements of a row of D are a pair: i and i + D/2, or 2i and 2i + 1.
enum class Pairs : std::uint8_t { half_split, adjacent };

/// Rows of x [..., T, D], D even, any strides: pair i of row t turns by ±p · base^(−2i/D), p being positions[t] (i32 [T],
/// any stride), or start + t if `positions` is absent (`ConstView{}`). `inverse` turns the other way. f32 or f64; y has
/// x's shape and dtype. Angles, sines and cosines in f64.
void rotary(ConstView x, Pairs pairs, ConstView positions, Index start, double base, bool inverse, View y);

}  // namespace capstan::kernels
