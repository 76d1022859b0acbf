// Runs code in a thread with a small stack, to show that nothing recurses over the graph.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <stdexcept>

#include "support/sanitized.h"

namespace capstan::test {

/// 256 KB: a recursion over a million nodes would need hundreds of times that.
inline constexpr std::size_t small_stack = 256 * 1024;

/// Calls f in a new thread with a stack of that size; rethrows what f throws.
template <class F>
void with_small_stack(F f, std::size_t bytes = small_stack) {
  struct Job {
    F& f;
    std::exception_ptr error = nullptr;
  } job{f};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, bytes) != 0) throw std::runtime_error("this stack size is refused");
  pthread_t thread;
  const int refused = pthread_create(
      &thread, &attributes,
      [](void* data) -> void* {
        auto* work = static_cast<Job*>(data);
        try {
          work->f();
        } catch (...) { work->error = std::current_exception(); }
        return nullptr;
      },
      &job);
  pthread_attr_destroy(&attributes);
  if (refused != 0) throw std::runtime_error("no thread with this stack size");
  pthread_join(thread, nullptr);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace capstan::test
