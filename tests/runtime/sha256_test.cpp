#include "runtime/system/sha256.h"

#include <gtest/gtest.h>

namespace ligerdsl::runtime {
namespace {

// Examples of FIPS 180-4 and of NIST's CAVP.
TEST(Sha256, MatchesTestVectors) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DigestDoesNotDependOnPieces) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const Digest whole = sha256(text);
  for (size_t first = 0; first <= text.size(); ++first) {
    const std::string_view view = text;
    EXPECT_EQ(Sha256().update(view.substr(0, first)).update(view.substr(first)).finish(), whole)
        << first;
  }
}

TEST(Sha256, FieldBoundariesChangeTheDigest) {
  EXPECT_NE(Sha256().field("ab").field("c").finish(), Sha256().field("a").field("bc").finish());
  EXPECT_NE(Sha256().field("").field("x").finish(), Sha256().field("x").field("").finish());
}

}  // namespace
}  // namespace ligerdsl::runtime
