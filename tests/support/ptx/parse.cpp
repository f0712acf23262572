#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>

#include "tests/support/ptx/memory.h"
#include "tests/support/ptx/program.h"

namespace ligerdsl::test::ptx {
namespace {

constexpr char kSpace[] = " \t\n";

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Splits the text at separators that are not inside braces or brackets.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c == separator && depth == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  for (std::string& part : out) part = trim(part);
  return out;
}

// Scans statements by hand, because std::regex would take longer than the rest of the parser.
constexpr char kWord[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const std::string kRegister = std::string(kWord) + "%", kOpcode = std::string(kWord) + ".:";

// Returns the characters from `at` up to the first one that is not in `set`, and moves `at` there.
std::string take(const std::string& text, size_t& at, const std::string& set) {
  const size_t begin = at;
  at = std::min(text.find_first_not_of(set, at), text.size());
  return text.substr(begin, at - begin);
}

bool is_special(const std::string& name) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all{"%tid.x", "%ntid.x",          "%laneid",
                              "%nsmid", "%cluster_ctarank", "%cluster_nctarank"};
    for (const char* vector :
         {"%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"}) {
      for (const char* axis : {".x", ".y", ".z"}) all.insert(std::string(vector) + axis);
    }
    return all;
  }();
  return names.contains(name);
}

// Returns true for a register such as %rd12: a percent sign, lower-case letters, then digits.
bool is_plain_register(const std::string& name) {
  size_t at = 1;
  return name.starts_with('%') && !take(name, at, "abcdefghijklmnopqrstuvwxyz").empty() &&
         !take(name, at, "0123456789").empty() && at == name.size();
}

std::string without_comments(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t comment = std::min(text.find("//", at), text.size());
    out.append(text, at, comment - at);
    at = std::min(text.find('\n', comment), text.size());
  }
  return out;
}

class Parser {
 public:
  Program run(const std::string& text) {
    const std::string header = text.substr(0, text.find("\n{"));
    std::smatch match;
    if (!std::regex_search(header, match, std::regex("\\.entry\\s+(\\w+)")))
      throw std::runtime_error("PTX without .entry");
    program_.entry = match[1];
    if (std::regex_search(header, match, std::regex("\\.reqntid\\s+(\\d+)")))
      program_.threads = std::stoi(match[1]);
    static const std::regex cluster(
        "\\.reqnctapercluster\\s+(\\d+)(?:,\\s*(\\d+))?(?:,\\s*(\\d+))?");
    if (std::regex_search(header, match, cluster)) {
      for (size_t i = 0; i < 3; ++i)
        program_.cluster[i] = match[i + 1].length() ? std::stoll(match[i + 1]) : 1;
    }
    parse_body(text);
    resolve_labels();
    give_up_halves();
    return std::move(program_);
  }

 private:
  // A block of inline assembly in braces. It may declare its own registers and labels.
  struct Scope {
    int number;
    std::set<std::string> names;
  };

  [[noreturn]] void fail(const std::string& what, const std::string& text) const {
    throw std::runtime_error("PTX line " + std::to_string(line_) + ": " + what + ": " + text);
  }

  // The body starts at a line with an opening brace. Statements end in a semicolon and labels in a
  // colon. Braces enclose blocks.
  void parse_body(const std::string& text) {
    const std::string body = without_comments(text);
    size_t at = body.find("\n{");
    if (at == std::string::npos) throw std::runtime_error("PTX without a body");
    line_ = 1 + static_cast<int>(
                    std::count(body.begin(), body.begin() + static_cast<int64_t>(at), '\n'));
    while (at < body.size()) {
      const char c = body[at];
      if (std::isspace(static_cast<unsigned char>(c))) {
        line_ += c == '\n';
        ++at;
      } else if (c == '{') {
        scopes_.push_back({blocks_++, {}});
        ++at;
      } else if (c == '}') {
        scopes_.pop_back();
        if (scopes_.empty()) return;
        ++at;
      } else {
        at = parse_next(body, at);
      }
    }
    fail("the body does not end", program_.entry);
  }

  size_t parse_next(const std::string& body, size_t at) {
    size_t colon = at;
    while (colon < body.size() &&
           (std::isalnum(static_cast<unsigned char>(body[colon])) || body[colon] == '_' ||
            body[colon] == '$' || body[colon] == '%')) {
      ++colon;
    }
    if (colon < body.size() && body[colon] == ':' && body.compare(colon, 2, "::") != 0) {
      labels_[scoped(body.substr(at, colon - at), scopes_.back().number)] =
          program_.instructions.size();
      return colon + 1;
    }
    size_t end = body.find_first_of(body[at] == '.' ? ";\n" : ";", at);
    if (end == std::string::npos) end = body.size();
    const std::string statement = trim(body.substr(at, end - at));
    if (statement.starts_with(".reg")) {
      declare(statement);
    } else if (statement[0] != '.' && !statement.empty()) {  // skips .loc and .pragma
      parse_statement(statement);
    }
    line_ += static_cast<int>(std::count(body.begin() + static_cast<int64_t>(at),
                                         body.begin() + static_cast<int64_t>(end), '\n'));
    return end < body.size() && body[end] == ';' ? end + 1 : end;
  }

  void declare(const std::string& statement) {
    if (scopes_.size() == 1) return;  // the kernel's own registers need no list
    static const std::regex pattern("\\.reg\\s+\\.\\w+\\s+(.*)");
    std::smatch match;
    if (!std::regex_match(statement, match, pattern)) fail("not a declaration", statement);
    for (const std::string& name : split(match[1], ',')) scopes_.back().names.insert(name);
  }

  static std::string scoped(const std::string& name, int number) {
    return number == 0 ? name : name + "@" + std::to_string(number);
  }

  void parse_statement(const std::string& statement) {
    Instruction i;
    i.line = line_;
    i.text = statement;
    size_t at = 0;
    if (statement[0] == '@') {
      i.negated = statement.starts_with("@!");
      at = i.negated ? 2 : 1;
      i.predicate = register_of(take(statement, at, kRegister));
      if (take(statement, at, kSpace).empty()) fail("not an instruction", statement);
    }
    i.opcode = take(statement, at, kOpcode);
    if (i.opcode.empty() || !std::isalpha(static_cast<unsigned char>(i.opcode[0])))
      fail("not an instruction", statement);
    take(statement, at, kSpace);
    if (at < statement.size()) {
      for (const std::string& operand : split(statement.substr(at), ','))
        i.operands.push_back(parse_operand(operand));
    }
    try {
      decode(i, program_.entry);
    } catch (const std::runtime_error& error) {
      fail(error.what(), i.text);
    }
    program_.dependent = program_.dependent || i.kind == Kind::dependency_wait;
    branch_scopes_.emplace_back();
    for (const Scope& scope : scopes_) branch_scopes_.back().push_back(scope.number);
    program_.instructions.push_back(std::move(i));
  }

  // Returns the unique name of a register that an enclosing block declares, or an empty text.
  std::string local_name(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->names.count(name)) return scoped(name, scope->number);
    }
    return "";
  }

  int register_of(const std::string& name) {
    std::string key = local_name(name);
    if (key.empty() && (is_plain_register(name) || is_special(name))) key = name;
    if (key.empty()) fail("unknown register", name);
    return program_.registers.emplace(key, static_cast<int>(program_.registers.size()))
        .first->second;
  }

  Operand parse_vector(const std::string& text, char separator) {
    Operand o;
    o.kind = Operand::Kind::vector;
    for (const std::string& part : split(text, separator)) o.parts.push_back(parse_operand(part));
    return o;
  }

  Operand parse_operand(const std::string& text) {
    Operand o;
    if (text.empty()) fail("empty operand", text);
    if (text[0] == '{') return parse_vector(text.substr(1, text.size() - 2), ',');
    if (text.find('|') != std::string::npos) return parse_vector(text, '|');
    if (text[0] == '[') {
      o.kind = Operand::Kind::address;
      const std::vector<std::string> place = split(text.substr(1, text.size() - 2), ','),
                                     sum = split(place[0], '+');
      o.parts.push_back(parse_operand(sum[0]));
      if (place.size() > 1) o.parts.push_back(parse_operand(place[1]));
      if (sum.size() > 1) o.offset = std::stoll(sum[1]);
    } else if (text == "_") {
      o.kind = Operand::Kind::sink;
    } else if (text[0] == '%' || !local_name(text).empty()) {
      o.kind = Operand::Kind::reg;
      o.reg = register_of(text);
    } else if (text.starts_with("0f")) {
      o.constant.fill(std::stoull(text.substr(2), nullptr, 16));
    } else if (text[0] == '-' || std::isdigit(static_cast<unsigned char>(text[0]))) {
      o.constant.fill(text[0] == '-' ? static_cast<uint64_t>(std::stoll(text))
                                     : std::stoull(text, nullptr, 0));
    } else if (text == "ligerdsl_shared") {
      o.kind = Operand::Kind::shared;
    } else {
      o.kind = Operand::Kind::name;
      o.name = text;
    }
    return o;
  }

  // LLVM leaves a half of a packed vector undefined if nothing uses it. Registers that occur only
  // in such packs therefore get a pattern and need not be written.
  void give_up_halves() {
    std::set<int> others;
    const auto see = [&](const auto& self, const Operand& o) -> void {
      if (o.kind == Operand::Kind::reg) others.insert(o.reg);
      for (const Operand& part : o.parts) self(self, part);
    };
    for (const Instruction& i : program_.instructions) {
      others.insert(i.predicate);
      for (size_t o = 0; o < i.operands.size(); ++o) {
        if (i.kind != Kind::pack || o == 0) see(see, i.operands[o]);
      }
    }
    for (Instruction& i : program_.instructions) {
      if (i.kind != Kind::pack) continue;
      for (Operand& part : i.operands[1].parts) {
        if (part.kind != Operand::Kind::reg || others.contains(part.reg)) continue;
        part = {};
        part.constant.fill(0xa5a5a5a5a5a5a5a5);
      }
    }
  }

  void resolve_labels() {
    for (size_t at = 0; at < program_.instructions.size(); ++at) {
      Instruction& i = program_.instructions[at];
      if (i.kind != Kind::branch) continue;
      auto label = labels_.end();
      for (int scope : branch_scopes_[at]) {  // the innermost scope with this label wins
        const auto found = labels_.find(scoped(i.operands.at(0).name, scope));
        if (found != labels_.end()) label = found;
      }
      line_ = i.line;
      if (label == labels_.end()) fail("branch to an unknown label", i.text);
      i.target = label->second;
    }
  }

  Program program_;
  std::map<std::string, size_t> labels_;
  std::vector<Scope> scopes_;
  std::vector<std::vector<int>> branch_scopes_;
  int line_ = 0, blocks_ = 0;
};

}  // namespace

Program parse(const std::string& text) {
  return Parser().run(text);
}

}  // namespace ligerdsl::test::ptx
