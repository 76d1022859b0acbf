// A module in a table: names, shapes, parameter counts.
#pragma once

#include <capstan/nn/module.h>

#include <string>
#include <vector>

namespace capstan::nn {

namespace detail {
struct SummaryRow {
  std::string name;
  Shape shape;
  DType dtype;
  bool trained;
};
std::string summary_table(const std::vector<SummaryRow>& rows);
}  // namespace detail

/// One line a tensor, with the total at the end; many equal blocks ("blocks.0.…", "blocks.1.…") are folded into one.
template <class Module>
std::string summary(const Module& module) {
  std::vector<detail::SummaryRow> rows;
  walk(module, [&](const Path& path, const auto& leaf) {
    const Tensor& x = stored(leaf);
    rows.push_back({path.str(), x.shape(), x.dtype(), differentiable(leaf) != nullptr});
  });
  return detail::summary_table(rows);
}

}  // namespace capstan::nn
