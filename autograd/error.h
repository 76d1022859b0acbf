// The one exception type of capstan. Not for: formatting (see format.h) or error codes (there are none).
#pragma once

#include <stdexcept>

namespace capstan {

/// Thrown for every misuse: one sentence of the form `op: what must hold; got what; remedy`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace capstan
