// Which op's results fill the memory: bytes of tensors by the op that made them, at the peak and now.
// Not for: kernels' scratch memory and what the pool caches (pool_statistics).
#pragma once

#include <capstan/autograd/shape.h>

#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// Counts, while it lives, every tensor's storage that any thread makes, under the op whose `eval` or rule was running
/// (the outermost one: a rule's own ops count as the rule). What a tape saves and what its rules made is told apart by
/// `backward`. One at a time; without one, a storage costs a test of a flag.
///
///     MemoryProfile profile;
///     train_a_step();
///     fmt::print("{}", to_string(profile));
///
///     op                     made     at peak      peak      now
///     matmul                1.5 MB     1.2 MB    1.2 MB     0  B
///     matmul, backward      …
class MemoryProfile {
 public:
  /// An Error if another one lives.
  MemoryProfile();
  ~MemoryProfile();
  MemoryProfile(const MemoryProfile&) = delete;
  MemoryProfile& operator=(const MemoryProfile&) = delete;

  struct Entry {
    std::string op;         ///< "" for what was made outside ops: parameters, ids, constants
    bool backward = false;  ///< made by the op's rule
    Index storages = 0;     ///< how many were made
    Index bytes = 0;        ///< in all of them
    Index live = 0;         ///< bytes of those that are alive now
    Index peak = 0;         ///< the most that was alive of this entry
    Index at_peak = 0;      ///< alive when the sum over all entries was at its peak
  };
  /// The largest `at_peak` first.
  std::vector<Entry> entries() const;
  /// Sums over all entries: alive now, and the most that ever was.
  Index live() const;
  Index peak() const;
};

/// A table of the entries.
std::string to_string(const MemoryProfile& profile);

}  // namespace capstan
