#include <capstan/autograd/format.h>
#include <capstan/nn/embedding.h>
#include <capstan/ops/embedding.h>

namespace capstan::nn {

Embedding::Embedding(Init& init, const Config& config)
    : table(init.normal({config.rows, config.width}, config.deviation)), padding_id(config.padding_id) {
  if (padding_id && (*padding_id < 0 || *padding_id >= config.rows))
    fail("Embedding: padding_id must be in [0, {}); got {}", config.rows, *padding_id);
}

Tensor Embedding::operator()(const Tensor& ids) const { return embedding(table, ids, padding_id); }

}  // namespace capstan::nn
