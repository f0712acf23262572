// Fixture of tests that execute kernels.
#pragma once

#include "support.h"

namespace ligerdsl::test {

class Execute : public testing::Test {
 protected:
  Context context_ = Context::cpu(2);
};

}  // namespace ligerdsl::test
