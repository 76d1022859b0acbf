#include "shape.h"
