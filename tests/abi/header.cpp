// The C header in C++: what header.c does, compiled as C++.
#include "header.c"
