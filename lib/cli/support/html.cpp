#include "lib/cli/support/html.h"

#include <fmt/format.h>

#include "lib/text/printable.h"

namespace ligerdsl::cli {

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_table(const std::string& caption, const std::vector<HtmlColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::string& classes) {
  const auto kind = [&](size_t i) {
    const HtmlColumn& column = columns[i];
    if (!column.numeric && !column.minor) return "";
    return !column.minor    ? " class=\"number\""
           : column.numeric ? " class=\"number minor\""
                            : " class=\"minor\"";
  };
  std::string html =
      fmt::format("<div class=\"wide\"><table class=\"{}\">\n<caption>{}</caption>\n<thead><tr>",
                  classes, html_text(caption));
  for (size_t i = 0; i < columns.size(); ++i)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", kind(i), html_text(columns[i].title));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& cells : rows) {
    html += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      const char* tag = i == 0 ? "th scope=\"row\"" : "td";
      const std::string cell = cells[i].empty() ? "" : fmt::format("<div>{}</div>", cells[i]);
      html += fmt::format("<{}{} data-title=\"{}\">{}</{}>", tag, kind(i),
                          html_text(columns[i].title), cell, i == 0 ? "th" : "td");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace ligerdsl::cli
