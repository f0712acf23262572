#include "lib/abi/fused_linear/report.h"

#include <cstdio>

namespace ligerdsl::lib {

namespace {

std::string with_unit(int64_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

// Returns true if a pass over chunks of rows is needed.
bool needs_rows(const HeadReport& report, const LinearLayout& layout) {
  return !layout.by_vocabulary || !report.from_lse || report.with_d_x || report.with_d_bias;
}

std::string rows_in_chunks(const HeadReport& report, const LinearLayout& layout, int64_t rows) {
  if (!needs_rows(report, layout)) return "none, because only d_weight is wanted";
  const int64_t front = layout.rows_in_front,
                chunks = kernels::ceil_div(rows - front, layout.chunk);
  if (front > 0)
    return "one of " + with_unit(front, "row") + ", then " + std::to_string(chunks) + " of " +
           "at most " + with_unit(layout.chunk, "row");
  return chunks == 1 ? "one, of " + with_unit(rows, "row")
                     : std::to_string(chunks) + ", of at most " + with_unit(layout.chunk, "row");
}

// Returns the flop of all matmuls in units of N H V.
std::string flop(const HeadReport& report, const LinearLayout& layout, int64_t rows) {
  const double logits =
      2 + 2 * static_cast<double>(report.target_cols) / static_cast<double>(report.cols);
  double parts =
      (needs_rows(report, layout) ? logits : 0) + 2 * report.with_d_x + 2 * report.with_d_weight;
  const int64_t again = layout.in_d_weight     ? rows - std::min(rows, layout.chunk)
                        : layout.by_vocabulary ? rows
                                               : 0;
  parts += 2 * static_cast<double>(again) / static_cast<double>(rows);
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", parts);
  return std::string(text) + " N H V flop";
}

std::string of_logits(const HeadReport& report, const LinearLayout& layout, int64_t rows) {
  const bool with_gradient = report.with_d_x || report.with_d_weight || report.with_d_bias;
  if (report.kept == LogitsAs::exponentials && !with_gradient)
    return "not stored, nor anything of their size";
  const std::string what = report.kept == LogitsAs::logits ? "stored in "
                           : report.kept == LogitsAs::exponentials
                               ? "not stored; their exponentials in "
                               : "not stored; their gradient in ";
  const bool of_blocks = !needs_rows(report, layout);
  const int64_t columns = layout.in_d_weight || of_blocks ? layout.columns : report.classes,
                of_rows = std::min(rows, of_blocks ? layout.block_rows : layout.chunk);
  return what + name(report.product_type) + ", " + (report.target_cols > 0 ? "two times " : "") +
         std::to_string(of_rows) + " x " + std::to_string(columns) + " of them in the workspace" +
         (layout.in_d_weight         ? ", those of the other classes in d_weight's memory"
          : layout.rows_in_front > 0 ? ", most of the first chunk in d_weight's memory"
                                     : "");
}

std::string of_d_weight(const HeadReport& report, const LinearLayout& layout, int64_t rows) {
  const int64_t blocks =
      layout.by_vocabulary ? kernels::ceil_div(report.classes, layout.columns) : 0;
  std::string text;
  if (layout.in_d_weight) {
    const int64_t again = rows - std::min(rows, layout.chunk);
    text = with_unit(blocks, "block") + " of " + std::to_string(layout.columns) +
           " classes, from the last to the first, each of which overwrites the exponentials of the "
           "block after it";
    if (again > 0)
      text += "; " + with_unit(again, "row") + " computed again, " +
              std::to_string(layout.block_rows) + " at a time" +
              (layout.block_rows < again && layout.rows_between > 0
                   ? ", or more where d_weight's memory has room"
                   : "");
  } else if (layout.by_vocabulary) {
    text = with_unit(blocks, "block") + " of " + std::to_string(layout.columns) +
           " classes, each from " + with_unit(std::min(rows, layout.block_rows), "row") +
           " at a time, whose logits are computed" +
           (report.from_lse && !report.with_d_x && !report.with_d_bias ? " once" : " again");
  } else if (layout.rows_in_front > 0) {
    text =
        "the first chunk in blocks of classes, in place of its exponentials; then the other chunks "
        "are added";
  } else {
    text = layout.chunk < rows ? "the sum of the chunks' matmuls" : "one matmul";
  }
  return text + (layout.add_up_d_weight ? ", summed in f32 and rounded at the end" : "");
}

}  // namespace

std::vector<Fact> facts_of(const HeadReport& report, const LinearLayout& layout, int64_t rows) {
  if (rows == 0) return {};
  const std::string who =
      report.own_products ? "by the library's own kernels, "
      : report.or_own ? "by a matrix library, or by the library's own kernels if none is found, "
                      : "by a matrix library, ";
  std::vector<Fact> facts{{"products", who + flop(report, layout, rows)},
                          {"chunks", rows_in_chunks(report, layout, rows)},
                          {"logits", of_logits(report, layout, rows)}};
  if (report.with_d_weight) facts.push_back({"d_weight", of_d_weight(report, layout, rows)});
  if (report.tile_rows > 0)
    facts.push_back(
        {"ignored rows", "skipped in tiles of " + with_unit(report.tile_rows, "row") +
                             " without a counted row" +
                             (layout.by_vocabulary && !(layout.in_d_weight && layout.chunk >= rows)
                                  ? ", except where logits are computed again"
                                  : "")});
  if (layout.weight_rows > 0 && layout.weight_rows < report.classes)
    facts.push_back(
        {"weight", "converted in blocks of " + std::to_string(layout.weight_rows) + " classes"});
  return facts;
}

}  // namespace ligerdsl::lib
