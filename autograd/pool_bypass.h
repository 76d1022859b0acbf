// Blocks past the cache, for memory that stays. Not for: anything that is freed and wanted again.
#pragma once

namespace capstan {

/// While it lives, the blocks that this thread asks the pool for come from the upstream, and those that it frees go there. Work
/// that repeats (a training step) finds the blocks that it freed again, although something that stays (an optimiser's state) was
/// made meanwhile. What was made under a bypass should be freed under one, or it adds to the cache.
class PoolBypass {
 public:
  PoolBypass();
  ~PoolBypass();
  PoolBypass(const PoolBypass&) = delete;
  PoolBypass& operator=(const PoolBypass&) = delete;

 private:
  bool before_;
};

}  // namespace capstan
