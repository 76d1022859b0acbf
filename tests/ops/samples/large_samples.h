// Every op of the catalogue once at a size at which its kernels run on several threads, and the closed lists of ops for
// which a column of gradient_report does not apply.
#pragma once

#include <string>
#include <string_view>

namespace capstan::test {

struct ThreadsOutcome {
  std::string cell;     ///< "3": regions that ran in parallel; "n/a 2", "n/a 3": see gradient_report
  std::string failure;  ///< "" or what is wrong
};

/// Runs the op, forward and backward, on 1, 2 and 4 threads at a large size: the bytes must be the same, and a region
/// must have run in parallel unless the op is a view or the engine's own.
ThreadsOutcome same_on_any_threads_when_large(std::string_view op);

/// Ops whose rule is no_gradient: their result does not vary with the inputs, or only in jumps.
bool has_no_gradient(std::string_view op);

}  // namespace capstan::test
