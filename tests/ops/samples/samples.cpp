// All samples of the catalogue: joins the families' lists. A new family is declared in support/sample.h and added here.
#include "support/sample.h"

namespace capstan::test {

Samples all_samples() {
  Samples all;
  for (const auto family :
       {elementwise_samples, compare_samples, reduce_samples, rearrange_samples, gather_samples, matmul_samples,
        softmax_samples, embedding_samples, losses_samples, activation_samples, add_layer_norm_samples,
        rms_norm_samples, dropout_samples, rotary_samples, attention_samples, engine_samples}) {
    Samples samples = family();
    all.insert(all.end(), std::make_move_iterator(samples.begin()), std::make_move_iterator(samples.end()));
  }
  return all;
}

}  // namespace capstan::test
