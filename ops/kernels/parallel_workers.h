// The threads under parallel.cpp. Not for: anybody else.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/shape.h>

namespace capstan::kernels {

/// Calls body(block) once for each block in [0, blocks), on the calling thread and up to team − 1 workers, and returns
/// when all are done. body does not throw. False if no worker was free to be asked: another thread's region has them.
bool run_on_workers(int team, Index blocks, FunctionRef<void(Index block)> body);

}  // namespace capstan::kernels
