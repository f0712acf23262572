// Tests that a remark's remedy comes from the table program/remarks.def.
#include "program/remarks.h"

#include <gtest/gtest.h>

namespace ligerdsl::program {
namespace {

TEST(Remarks, RemedyIsThatOfTheReasonInTheText) {
  const Remark remark =
      make_remark(RemarkId::load_not_staged,
                  "num_stages = 3: not staged in shared memory: the layouts of its uses split its "
                  "16-byte vectors");
  EXPECT_EQ(remedy_of(remark), "tiles whose vectors a thread can use whole");
  EXPECT_EQ(
      text_with_remedy(remark),
      "remark: [tile-prefetch-loads] num_stages = 3: not staged in shared memory: the layouts "
      "of its uses split its 16-byte vectors; remedy: tiles whose vectors a thread can use "
      "whole [load-not-staged]");
}

TEST(Remarks, NumbersInAReasonDoNotHideItsRemedy) {
  const Remark remark =
      make_remark(RemarkId::no_tensor_store,
                  "tensor_copies = true: not done: each CTA has 4 rows of it, and a "
                  "TMA store needs 8 or more");
  EXPECT_EQ(remedy_of(remark), "8 rows or more");
}

TEST(Remarks, TextWithARemedyStaysAsItIs) {
  const Remark remark = make_remark(
      RemarkId::min_ctas_exceed_threads,
      "min_ctas_per_sm = 8 is not reached: an SM holds 4 CTAs of 16 warps; use fewer warps");
  EXPECT_EQ(remedy_of(remark), "fewer warps");
  EXPECT_EQ(text_with_remedy(remark), to_string(remark));
}

TEST(Remarks, DiagnosticsOfMlirHaveNoRemedy) {
  const Remark remark{.text = "loop was not vectorised"};
  EXPECT_EQ(remedy_of(remark), "");
  EXPECT_EQ(text_with_remedy(remark), to_string(remark));
}

}  // namespace
}  // namespace ligerdsl::program
