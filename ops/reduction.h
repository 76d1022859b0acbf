// What a loss does with its many values. Not for: reductions over axes (reduce.h).
#pragma once

#include <cstdint>

namespace capstan {

/// What becomes of the losses of single tokens (or elements): kept, summed, or summed and divided by the number of those
/// that count.
enum class Reduction : std::uint8_t { none, sum, mean };

}  // namespace capstan
