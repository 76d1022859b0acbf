// CASES 38, the other way round: a mask given where numbers are added to the scores.
// Message: a mask is no bias
#include <capstan/ops/attention.h>

namespace capstan {

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask) {
#ifdef FAULT
  const AttentionOptions options{.bias = mask};
#else
  const AttentionOptions options{.mask = mask};
#endif
  return attention_reference(q, k, v, options).output;
}

}  // namespace capstan
