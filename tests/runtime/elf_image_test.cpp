#include "runtime/system/elf_image.h"

#include "support.h"

namespace ligerdsl::runtime {
namespace {

TEST(ElfImage, DetectsTruncation) {
  const std::string whole = test::read_file(FAKE_COMPILER);
  EXPECT_FALSE(is_cut_short_elf(whole));
  for (const size_t bytes : {size_t{4}, size_t{63}, size_t{64}, whole.size() / 2, whole.size() - 1})
    EXPECT_TRUE(is_cut_short_elf(whole.substr(0, bytes))) << bytes << " of " << whole.size();
  EXPECT_FALSE(is_cut_short_elf(""));
  EXPECT_FALSE(
      is_cut_short_elf("\x7f"
                       "EL"));
  EXPECT_FALSE(is_cut_short_elf(".version 8.0"));
}

TEST(ElfImage, ArbitraryHeaderValuesAreSafe) {
  std::string image = test::read_file(FAKE_COMPILER).substr(0, 4096);
  for (size_t at = 16; at < 64; ++at) {
    for (const char byte : {'\xff', '\x80', '\0'}) {
      std::string changed = image;
      changed[at] = byte;
      static_cast<void>(
          is_cut_short_elf(changed));  // sanitizers report a read outside of the image
    }
  }
}

}  // namespace
}  // namespace ligerdsl::runtime
