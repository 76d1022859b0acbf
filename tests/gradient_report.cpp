// Prints, for every op of the catalogue, what its samples show: gradcheck's worst error at order 1 and 2, strided and
// empty inputs, f32 against f64, determinism over threads. Exit status 1 if a cell is a failure or a hole.
// `gradient_report [op…]` looks at some ops only.
#include <capstan/ops/catalog.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "ops/samples/check_sample.h"
#include "ops/samples/large_samples.h"

namespace {

using namespace capstan;

struct Row {
  int samples = 0, differentiable = 0, empty = 0;
  Index entries = 0;
  double first = 0, second = 0, f32 = 0, seconds = 0;
  bool strided = true, narrow = true;
  std::string threads;
  std::vector<std::string> failures;
};

Row examine(std::string_view op) {
  const auto start = std::chrono::steady_clock::now();
  Row row;
  const auto failed = [&](const std::string& label, const std::string& why) {
    row.failures.push_back(fmt::format("{} [{}]: {}", op, label, why));
  };
  for (const test::Sample& sample : test::samples_of(op)) {
    ++row.samples;
    row.empty += test::is_empty(sample) ? 1 : 0;
    try {
      if (const std::string wrong = test::ignores_memory_layout(sample); !wrong.empty()) {
        row.strided = false;
        failed(sample.label, wrong);
      }
      if (const std::string wrong = test::close_in_f32(sample); !wrong.empty()) {
        row.narrow = false;
        failed(sample.label, wrong);
      }
      row.f32 = std::max(row.f32, test::f32_error(sample));
      if (!test::differentiable(sample)) continue;
      ++row.differentiable;
      const GradcheckReport report = test::check_gradients(sample);
      row.entries += report.entries;
      row.first = std::max(row.first, report.worst_first_order);
      row.second = std::max(row.second, report.worst_second_order);
      if (!report.passed) failed(sample.label, report.failure);
    } catch (const std::exception& error) { failed(sample.label, error.what()); }
  }
  if (row.samples == 0) failed("", "no sample in tests/ops/samples/");
  if (row.empty == 0) failed("", "no sample with an empty input");
  if ((row.differentiable == 0) != test::has_no_gradient(op)) failed("", "must have a gradient, or say no_gradient");
  const test::ThreadsOutcome threads = test::same_on_any_threads_when_large(op);
  row.threads = threads.cell;
  if (!threads.failure.empty()) failed("large", threads.failure);
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

void print(std::string_view op, const Row& row) {
  const auto error = [&](double worst) {
    return row.differentiable == 0 ? std::string("n/a 1") : fmt::format("{:.1e}", worst);
  };
  fmt::print("{:<20} {:>7} {:>7} {:>8} {:>8} {:>7} {:>5} {:>5.2f} {:>7} {:>6.2f}\n", op, row.samples, row.entries,
             error(row.first), error(row.second), row.strided ? "same" : "FAILED", row.empty, row.f32, row.threads,
             row.seconds);
}

}  // namespace

int main(int count, char** arguments) {
  const std::span<char*> asked(arguments + 1, static_cast<std::size_t>(count - 1));
  for (const char* op : asked)
    if (!ops::listed(op)) {
      fmt::print(stderr, "gradient_report: ops must be listed in ops/catalog.h; got {}\n", op);
      return 2;
    }
  fmt::print("{:<20} {:>7} {:>7} {:>8} {:>8} {:>7} {:>5} {:>5} {:>7} {:>6}\n", "op", "samples", "entries", "order 1",
             "order 2", "strided", "empty", "f32", "threads", "s");
  Row total;
  total.threads = "";
  for (const std::string_view op : ops::catalog) {
    if (!asked.empty() &&
        std::ranges::find(asked, op, [](const char* name) { return std::string_view(name); }) == asked.end())
      continue;
    Row row = examine(op);
    print(op, row);
    total.samples += row.samples;
    total.differentiable += row.differentiable;
    total.empty += row.empty;
    total.entries += row.entries;
    total.first = std::max(total.first, row.first);
    total.second = std::max(total.second, row.second);
    total.f32 = std::max(total.f32, row.f32);
    total.strided &= row.strided;
    total.seconds += row.seconds;
    total.failures.insert(total.failures.end(), row.failures.begin(), row.failures.end());
  }
  print("all", total);
  fmt::print(R"(
order 1, order 2  worst |analytic - numeric| / max(1, |numeric|, |<u, y>|) over all entries; bound {:.0e}
strided           values and gradients are the same for inputs and cotangents anywhere in memory
empty             samples with an empty input
f32               worst error in units of epsilon times the largest input; bound 8
threads           regions that ran in parallel at a large size; the same bytes for 1, 2 and 4 threads
n/a 1             the result does not vary with the inputs, or only in jumps: the rule says no_gradient
n/a 2             a view: no kernel runs
n/a 3             the engine's own sum of cotangents: one thread, below the layer of the kernels
0.0e+00           linear (or piecewise linear) in each input: differences of its samples round to the very derivative
)",
             GradcheckOptions{}.tolerance);
  for (const std::string& failure : total.failures) fmt::print("FAILED: {}\n", failure);
  return total.failures.empty() ? 0 : 1;
}
