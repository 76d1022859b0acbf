// A program that sees capstan only as installed.
#include <capstan/autograd/shape.h>

int main() { return capstan::broadcast("consumer", {2, 1}, {3}) == capstan::Shape{2, 3} ? 0 : 1; }
