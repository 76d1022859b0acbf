// Ctrl-C and SIGTERM as a question that the training loop asks. Not for: any other signal.
#pragma once

#include <csignal>

namespace capstan::train_gpt {

/// While one lives, the first SIGINT or SIGTERM only sets a flag; the second ends the program at once, the way the system
/// does it by default. The destructor puts the former handlers back. At most one at a time: a second one throws Error.
/// They are caught even where a parent had them ignored (a shell's background job): whoever sends one means it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stop_requested() const { return signal() != 0; }
  /// SIGINT or SIGTERM; 0 when none has come.
  int signal() const;

 private:
  struct sigaction former_interrupt_ {};
  struct sigaction former_terminate_ {};
};

}  // namespace capstan::train_gpt
