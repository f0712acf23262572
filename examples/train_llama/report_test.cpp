#include "report.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(Report, DurationsShowHoursAndDays) {
  EXPECT_EQ(duration(0), "00:00");
  EXPECT_EQ(duration(65.9), "01:05");
  EXPECT_EQ(duration(3 * 3600 + 65), "3:01:05");
  EXPECT_EQ(duration(24 * 3600), "1 d 00:00:00");
  EXPECT_EQ(duration(50 * 3600 + 61), "2 d 02:01:01");
  EXPECT_EQ(duration(-1), "00:00");
  EXPECT_EQ(duration(1e300), duration(1e15));
}

}  // namespace
}  // namespace train
