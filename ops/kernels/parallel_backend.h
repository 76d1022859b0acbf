// What parallel.cpp wants from threads: one of two implementations is compiled. Not for: anybody else.
#pragma once

#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/shape.h>

namespace capstan::kernels {

const char* backend_name();

/// Calls body(block) once for each block in [0, blocks), on up to `team` threads, and returns when all are done. body
/// does not throw. False if it all ran on the calling thread alone.
bool run_on_threads(int team, Index blocks, FunctionRef<void(Index block)> body);

}  // namespace capstan::kernels
