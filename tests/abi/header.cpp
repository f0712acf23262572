// Compiles header.c as C++.
#include "header.c"
