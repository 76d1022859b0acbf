// Dropout that nobody gave a key: evaluation cannot be random by accident.
// Message: too few arguments|no matching function
#include <capstan/ops/dropout.h>

namespace capstan {

Tensor drop(const Tensor& x, [[maybe_unused]] Key key) {
#ifdef FAULT
  return dropout(x, 0.5);
#else
  return dropout(x, 0.5, key);
#endif
}

}  // namespace capstan
