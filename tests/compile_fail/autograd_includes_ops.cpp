// An upward include: a file of autograd that knows the catalogue.
// Message: capstan/ops/catalog.h.*(No such file|file not found)
#include <capstan/autograd/shape.h>
#ifdef FAULT
#include <capstan/ops/catalog.h>
#endif
