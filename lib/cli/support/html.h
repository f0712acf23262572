// Parts of an HTML page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

// Text of any origin, as text: of an element or of a quoted attribute.
std::string html_text(std::string_view text);

struct HtmlColumn {
  std::string title;  // text
  bool numeric = false;
  bool minor = false;  // a narrow page may leave it out
};
// Cells are HTML. Each has its column's title, so that a style can show a row as a card. Classes name a style.
std::string html_table(const std::string& caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, const std::string& classes = "");

}  // namespace ligerdsl::cli
