// Compiled only for its precompiled header, which all test programs share.
#include "tests/support/common_headers.h"
