// Embedding: a table of rows picked by ids.
#pragma once

#include <capstan/nn/module.h>

#include <optional>

namespace capstan::nn {

/// y[...] = table[ids[...]].   ids i32 [...] in [0, rows) → [..., width];  table [rows, width], normal(0, deviation).
/// The row `padding_id` gets no gradient; its value is used as it stands.
struct Embedding {
  struct Config {
    Index rows = 0;
    Index width = 0;
    double deviation = 1;
    std::optional<Index> padding_id = {};
  };
  Parameter table;
  std::optional<Index> padding_id;

  Embedding(Init& init, const Config& config);
  Tensor operator()(const Tensor& ids) const;
  static void fields(auto& self, auto& f) { f("table", self.table); }
};

}  // namespace capstan::nn
