// Test suite of fused_linear_cross_entropy, whose tests are in several files;
// fused_linear_cross_entropy_test.cpp instantiates it.
#pragma once

#include "tests/kernels/fused_linear/library/linear_head.h"

namespace ligerdsl::test {

class FusedLinearCrossEntropy : public WithProducts {};

}  // namespace ligerdsl::test
