// Samples of ops/embedding.h and ops/cross_entropy.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/rearrange.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(const Shape& shape) { return normal(Key{.seed = 41}, shape, 0, 1, DType::f64); }
Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }

/// True in one row of [rows, columns].
Tensor row_of(Index rows, Index columns, Index row) {
  Buffer buffer(Shape{rows, columns}, DType::boolean);
  for (Index i = 0; i < rows * columns; ++i) buffer.data<bool>()[static_cast<std::size_t>(i)] = i / columns == row;
  return buffer;
}

void embeddings(Samples& samples) {
  const auto lookup = [](std::optional<Index> padding = std::nullopt) {
    return [=](const List& x) { return List{embedding(x[0], x[1], padding)}; };
  };
  const auto add = [&](const char* label, const Tensor& table, const Tensor& places) {
    samples.push_back({"embedding", label, {table, places}, lookup()});
  };
  add("[4,3], ids [2]", draw({4, 3}), ids({2, 0}, {2}));
  add("repeated ids", draw({4, 2}), ids({1, 3, 1, 1}, {4}));
  add("ids [2,3]", draw({4, 2}), ids({0, 1, 2, 3, 3, 0}, {2, 3}));
  add("a single id", draw({3, 2}), ids({1}, {}));
  add("no ids", draw({3, 2}), ids({}, {0}));
  add("C = 0", draw({3, 0}), ids({1, 2}, {2}));
  add("V = 1", draw({1, 3}), ids({0, 0}, {2}));
  add("transposed table", transpose(draw({2, 4})), ids({3, 3, 1}, {3}));
  add("every second column of the table", slice(draw({3, 5}), 1, 0, 5, 2), ids({2, 1}, {2}));
  add("transposed ids", draw({4, 2}), transpose(ids({0, 1, 2, 3, 3, 0}, {2, 3})));
  samples.push_back(
      {"embedding", "padding row", {draw({4, 2}), ids({2, 0, 2, 1}, {2, 2})}, lookup(2), {row_of(4, 2, 2), Tensor()}});
  samples.push_back({"embedding",
                     "only the padding row",
                     {draw({2, 2}), ids({0, 0}, {2})},
                     lookup(0),
                     {full({2, 2}, 1, DType::boolean), Tensor()}});

  const auto back = [](Index rows, std::optional<Index> padding = std::nullopt) {
    return [=](const List& x) { return List{embedding_transpose(x[0], x[1], rows, padding)}; };
  };
  const auto add_back = [&](const char* label, Index rows, const Tensor& x, const Tensor& places) {
    samples.push_back({"embedding_transpose", label, {x, places}, back(rows)});
  };
  add_back("[3,2] into 4 rows", 4, draw({3, 2}), ids({2, 0, 2}, {3}));
  add_back("ids [2,2]", 3, draw({2, 2, 2}), ids({0, 1, 2, 1}, {2, 2}));
  add_back("a single id", 3, draw({2}), ids({1}, {}));
  add_back("no ids", 3, draw({0, 2}), ids({}, {0}));
  add_back("transposed x", 3, transpose(draw({2, 3})), ids({1, 1, 0}, {3}));
  add_back("x with stride 0", 3, broadcast_to(draw({2}), Shape{3, 2}), ids({1, 1, 0}, {3}));
  samples.push_back({"embedding_transpose",
                     "padding places",
                     {draw({3, 2}), ids({2, 0, 2}, {3})},
                     back(3, 0),
                     {row_of(3, 2, 1), Tensor()}});
}

void losses(Samples& samples) {
  const auto reduced = [](const CrossEntropyOptions& options) {
    return [=](const List& x) { return List{cross_entropy(x[0], x[1], options)}; };
  };
  const auto add = [&](const char* label, const Tensor& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {}) {
    CrossEntropyOptions each = options;
    each.reduction = Reduction::none;
    samples.push_back({"cross_entropy", label, {logits, targets}, reduced(each)});
  };
  add("[3,4]", draw({3, 4}), ids({1, 3, 0}, {3}));
  add("[2,2,3]", draw({2, 2, 3}), ids({1, 2, 0, 0}, {2, 2}));
  add("one row", draw({4}), ids({2}, {}));
  add("one class", draw({2, 1}), ids({0, 0}, {2}));
  add("a row longer than a vector", draw({1, 19}), ids({18}, {1}));
  add("no rows", draw({0, 3}), ids({}, {0}));
  add("transposed logits", transpose(draw({3, 2})), ids({1, 2}, {2}));
  add("every second class", slice(draw({2, 6}), 1, 0, 6, 2), ids({1, 2}, {2}));
  add("every second target", draw({2, 3}), slice(ids({1, 9, 2, 9}, {4}), 0, 0, 4, 2));
  add("smoothing", draw({3, 4}), ids({1, 3, 0}, {3}), {.label_smoothing = 0.1});
  add("smoothing 1", draw({2, 3}), ids({1, 2}, {2}), {.label_smoothing = 1});
  const CrossEntropyOptions ignoring{.ignore_index = -1, .label_smoothing = 0.2, .reduction = Reduction::none};
  samples.push_back({"cross_entropy",
                     "an ignored row, smoothing",
                     {draw({3, 3}), ids({1, -1, 0}, {3})},
                     reduced(ignoring),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "ignored id inside the classes",
                     {draw({3, 3}), ids({1, 2, 0}, {3})},
                     reduced({.ignore_index = 2, .reduction = Reduction::none}),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "mean, an ignored row",
                     {draw({3, 3}), ids({1, -1, 0}, {3})},
                     reduced({.ignore_index = -1}),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "mean, all ignored",
                     {draw({2, 3}), ids({-1, -1}, {2})},
                     reduced({.ignore_index = -1}),
                     {full({2, 3}, 1, DType::boolean), Tensor()}});
  samples.push_back(
      {"cross_entropy", "sum", {draw({3, 3}), ids({1, 2, 0}, {3})}, reduced({.reduction = Reduction::sum})});
  samples.push_back(
      {"cross_entropy", "none", {draw({3, 3}), ids({1, 2, 0}, {3})}, reduced({.reduction = Reduction::none})});
}

}  // namespace

Samples embedding_samples() {
  Samples samples;
  embeddings(samples);
  losses(samples);
  return samples;
}

}  // namespace capstan::test
