// The handler and its flag; see signals.h.
#include "signals.h"

#include <capstan/autograd/format.h>

#include <atomic>

namespace capstan::train_gpt {
namespace {

std::atomic<int> received{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

void note_signal(int number) {
  int none = 0;
  if (received.compare_exchange_strong(none, number)) return;
  // Takes effect when this handler returns, as its own signal is blocked meanwhile.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

StopSignals::StopSignals() {
  if (installed.exchange(true)) fail("StopSignals: there must be only one at a time; got a second");
  received = 0;
  struct sigaction action {};
  action.sa_handler = &note_signal;
  action.sa_flags = SA_RESTART;  // no write to a file or terminal is cut short
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_interrupt_);
  sigaction(SIGTERM, &action, &former_terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &former_interrupt_, nullptr);
  sigaction(SIGTERM, &former_terminate_, nullptr);
  installed = false;
}

int StopSignals::signal() const { return received; }

}  // namespace capstan::train_gpt
