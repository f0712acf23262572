// Tests how the command line reads and prints numbers, names and text.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"
#include "lib/text/printable.h"

namespace ligerdsl::cli {
namespace {

TEST(Text, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("plain, Grüße, 字, 🐍\n\ttabbed"), "plain, Grüße, 字, 🐍\n\ttabbed");
  EXPECT_EQ(printable("\x1b[31m\r\x7f"), "\\x1b[31m\\x0d\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // truncated
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // U+009B, the one-byte form of ESC [
  EXPECT_EQ(columns("Grüße"), 5u);
  EXPECT_EQ(printable_line("one\ntwo\r\n\tthree\x1b[2J 字"),
            "one\\ntwo\\x0d\\n\\tthree\\x1b[2J 字");
}

TEST(Text, CountsAgreeWithTheirNouns) {
  EXPECT_EQ(counted(0, "entry", "entries"), "0 entries");
  EXPECT_EQ(counted(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(counted(2, "entry", "entries"), "2 entries");
}

TEST(Text, NearestNameIsFound) {
  const std::vector<std::string> names = {"rms_norm_forward", "eps", "in_place", "sm_90", "sm_90a"};
  EXPECT_EQ(nearest("rms_norm_foward", names), "rms_norm_forward");
  EXPECT_EQ(nearest("esp", names), "eps");
  EXPECT_EQ(nearest("inplace", names), "in_place");
  EXPECT_EQ(nearest("SM_90A", names), "sm_90a");
  EXPECT_EQ(nearest("nothing", names), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), names), "");
  EXPECT_EQ(did_you_mean("esp", names), " (did you mean 'eps'?)");
  EXPECT_EQ(did_you_mean("nothing", names), "");
}

std::string refusal(const std::string& text, int64_t low, int64_t high) {
  try {
    return std::to_string(parse_integer("N", text, low, high));
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code, kUsage);
    return failure.what();
  }
}

TEST(Text, IntegersMustParseWhollyAndBeInRange) {
  EXPECT_EQ(refusal("16", 0, 16), "16");
  EXPECT_EQ(refusal("1e6", 0, 10000000), "1000000");
  EXPECT_EQ(refusal("-9223372036854775808", INT64_MIN, INT64_MAX), "-9223372036854775808");
  for (const char* text : {"", "17", "-1", "4x", " 4", "4 ", "1.5", "1e30", "nan", "inf", "0x10",
                           "99999999999999999999"})
    EXPECT_EQ(refusal(text, 0, 16),
              std::string("N: expected an integer from 0 to 16, got '") + text + "'");
}

TEST(Text, NumbersMustParseWhollyAndBeInRange) {
  EXPECT_EQ(parse_real("eps", "-1e-6"), -1e-6);
  EXPECT_TRUE(std::isnan(parse_real("eps", "nan")));
  for (const char* text : {"", "1.5x", "--1", "1,5"})
    EXPECT_THROW(parse_real("eps", text), Failure) << text;
  for (const char* text : {"nan", "inf", "-1", "11"})
    EXPECT_THROW(parse_real("ms", text, 0, 10), Failure) << text;
}

}  // namespace
}  // namespace ligerdsl::cli
