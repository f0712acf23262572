#include "lib/abi/build_info.h"

#include "ligerdsl_build_id.h"
#include "ligerdsl_commit.h"

namespace ligerdsl::lib {

const char* build_info() {
  return LIGERDSL_BUILD_ID LIGERDSL_COMMIT;
}

}  // namespace ligerdsl::lib
