// Prints gradcheck's worst error of every catalogue op at order 1 and 2, over all of its samples, and fails if one is
// beyond the tolerance. `gradient_report [op…]` looks at some ops only.
#include <capstan/ops/catalog.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "ops/samples/check_sample.h"

namespace {

using namespace capstan;

struct Row {
  int samples = 0, differentiable = 0;
  Index entries = 0;
  double first = 0, second = 0, seconds = 0;
  std::vector<std::string> failures;
};

Row examine(std::string_view op) {
  const auto start = std::chrono::steady_clock::now();
  Row row;
  for (const test::Sample& sample : test::samples_of(op)) {
    ++row.samples;
    try {
      if (!test::differentiable(sample)) continue;
      ++row.differentiable;
      const GradcheckReport report = test::check_gradients(sample);
      row.entries += report.entries;
      row.first = std::max(row.first, report.worst_first_order);
      row.second = std::max(row.second, report.worst_second_order);
      if (!report.passed) row.failures.push_back(report.failure);
    } catch (const std::exception& error) {
      row.failures.push_back(fmt::format("{} [{}]: {}", op, sample.label, error.what()));
    }
  }
  if (row.samples == 0) row.failures.push_back(fmt::format("{}: no sample in tests/ops/samples/", op));
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

}  // namespace

int main(int count, char** arguments) {
  const std::span<char*> asked(arguments + 1, static_cast<std::size_t>(count - 1));
  for (const char* op : asked)
    if (!ops::listed(op)) {
      fmt::print(stderr, "gradient_report: ops must be listed in ops/catalog.h; got {}\n", op);
      return 2;
    }
  fmt::print("{:<18} {:>7} {:>8} {:>9} {:>9} {:>7}\n", "op", "samples", "entries", "order 1", "order 2", "seconds");
  Row total;
  for (const std::string_view op : ops::catalog) {
    if (!asked.empty() &&
        std::ranges::find(asked, op, [](const char* name) { return std::string_view(name); }) == asked.end())
      continue;
    Row row = examine(op);
    if (row.differentiable == 0)
      fmt::print("{:<18} {:>7} {:>8} {:>9} {:>9} {:>7.2f}\n", op, row.samples, "-", "-", "-", row.seconds);
    else
      fmt::print("{:<18} {:>7} {:>8} {:>9.1e} {:>9.1e} {:>7.2f}\n", op, row.samples, row.entries, row.first, row.second,
                 row.seconds);
    total.samples += row.samples;
    total.entries += row.entries;
    total.first = std::max(total.first, row.first);
    total.second = std::max(total.second, row.second);
    total.seconds += row.seconds;
    total.failures.insert(total.failures.end(), row.failures.begin(), row.failures.end());
  }
  fmt::print("{:<18} {:>7} {:>8} {:>9.1e} {:>9.1e} {:>7.2f}\n", "all", total.samples, total.entries, total.first,
             total.second, total.seconds);
  for (const std::string& failure : total.failures) fmt::print("FAILED: {}\n", failure);
  return total.failures.empty() ? 0 : 1;
}
