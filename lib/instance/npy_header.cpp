#include "lib/instance/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace ligerdsl::cli {

namespace {

constexpr size_t kMaxRank = 64;  // largest rank of NumPy

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader header() {
    NpyHeader header;
    std::set<std::string> seen;
    expect('{');
    while (!next_is('}')) {
      const std::string key = string();
      expect(':');
      if (!seen.insert(key).second) fail(fmt::format("the key '{}' appears twice", key));
      if (key == "descr")
        header.descr = descr();
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        header.shape = shape();
      else
        fail(fmt::format("unknown key '{}'", key));
      if (!next_is('}')) expect(',');
    }
    expect('}');
    space();
    if (at_ != text_.size()) fail("text after the dictionary");
    for (const char* key : {"descr", "fortran_order", "shape"}) {
      if (!seen.count(key)) fail(fmt::format("the key '{}' is missing", key));
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw NpyError(fmt::format("header, byte {}: {}", at_, what));
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool next_is(char c) {
    space();
    return at_ < text_.size() && text_[at_] == c;
  }
  void expect(char c) {
    if (!next_is(c)) fail(fmt::format("expected '{}'", c));
    ++at_;
  }
  bool word(std::string_view wanted) {
    space();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  // Reads a string without escapes; keys and types have none.
  std::string string() {
    space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      fail("expected a string in quotes");
    const size_t begin = at_ + 1, end = text_.find(text_[at_], begin);
    if (end == std::string_view::npos) fail("expected a closing quote of the string");
    at_ = end + 1;
    return std::string(text_.substr(begin, end - begin));
  }
  std::string descr() {
    if (next_is('[')) fail("expected a type like '<f4', got a structure");
    return string();
  }
  bool boolean() {
    if (word("True")) return true;
    if (!word("False")) fail("expected True or False");
    return false;
  }
  int64_t size() {
    space();
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [after, error] = std::from_chars(text_.data() + at_, end, value);
    if (error == std::errc::result_out_of_range) fail("expected a size that fits in 64 bits");
    if (error != std::errc()) fail("expected an integer size");
    if (value < 0) fail(fmt::format("expected a size of 0 or more, got {}", value));
    at_ = static_cast<size_t>(after - text_.data());
    return value;
  }
  // Reads (), (n,), (n, m) or (n, m,). In Python (n) is a number, not a tuple.
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!next_is(')')) {
      sizes.push_back(size());
      if (sizes.size() > kMaxRank)
        fail(fmt::format("expected at most {} dimensions, got more", kMaxRank));
      if (sizes.size() == 1 || !next_is(')')) expect(',');
    }
    expect(')');
    return sizes;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  return Parser(text).header();
}

}  // namespace ligerdsl::cli
