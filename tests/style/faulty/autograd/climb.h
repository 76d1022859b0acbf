#include <capstan/autograd/../../ops/catalog.h>
