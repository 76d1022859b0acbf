// An upward include: a file of ops that knows modules.
// Message: capstan/nn/module.h.*(No such file|file not found)
#include <capstan/ops/catalog.h>
#ifdef FAULT
#include <capstan/nn/module.h>
#endif
