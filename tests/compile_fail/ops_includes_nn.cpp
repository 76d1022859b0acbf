// An upward include: a file of ops that knows modules.
// Message: capstan/nn/nn.h.*(No such file|file not found)
#include <capstan/ops/catalog.h>
#ifdef FAULT
#include <capstan/nn/nn.h>
#endif
