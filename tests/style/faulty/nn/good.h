#include <capstan/ops/catalog.h>
