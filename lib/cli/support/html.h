// Builds parts of an HTML page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

// Escapes untrusted text for an element or a quoted attribute.
std::string html_text(std::string_view text);

struct HtmlColumn {
  std::string title;  // plain text
  bool numeric = false;
  bool minor = false;  // column is omitted on a narrow page
};
// Returns a table whose cells are HTML. Each cell has its column's title as an attribute, so that a
// style can show a row as a card. `classes` are CSS classes.
std::string html_table(const std::string& caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::string& classes = "");

}  // namespace ligerdsl::cli
