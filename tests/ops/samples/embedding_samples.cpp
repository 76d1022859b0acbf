// Samples of ops/embedding.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/linear.h>
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

  samples.push_back(
      {"embedding", "a table that the head reads too", {draw({4, 2}), ids({1, 3, 1}, {3})}, [](const List& x) {
         return List{linear(embedding(x[0], x[1]), x[0])};
       }});
  samples.push_back({"embedding", "a table used twice", {draw({4, 2}), ids({2, 0, 2, 1}, {2, 2})}, [](const List& x) {
                       return List{embedding(x[0], x[1]) * embedding(x[0], x[1])};
                     }});

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

}  // namespace

Samples embedding_samples() {
  Samples samples;
  embeddings(samples);
  return samples;
}

}  // namespace capstan::test
