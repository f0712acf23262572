#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test::ptx {
namespace {

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// At top level only: commas inside braces and brackets stay.
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

bool is_special(const std::string& name) {
  static const std::regex pattern("%(tid\\.x|ntid\\.x|n?ctaid\\.[xyz]|laneid)");
  return std::regex_match(name, pattern);
}

class Parser {
 public:
  Program run(const std::string& text) {
    std::smatch match;
    if (!std::regex_search(text, match, std::regex("\\.entry\\s+(\\w+)")))
      throw std::runtime_error("PTX without .entry");
    program_.entry = match[1];
    if (std::regex_search(text, match, std::regex("\\.reqntid\\s+(\\d+)"))) program_.threads = std::stoi(match[1]);
    std::istringstream lines(text);
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      line = trim(line.substr(0, line.find("//")));
      if (inside && line == "}") break;
      if (inside) parse_line(line);
      inside = inside || line == "{";
    }
    resolve_labels();
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& text) const {
    throw std::runtime_error("PTX line " + std::to_string(line_) + ": " + what + ": " + text);
  }

  void parse_line(const std::string& line) {
    if (line.empty() || line.starts_with(".reg") || line.starts_with(".loc") || line.starts_with(".pragma")) return;
    if (line.back() == ':') {
      labels_[line.substr(0, line.size() - 1)] = program_.instructions.size();
      return;
    }
    for (const std::string& statement : split(line, ';')) {
      if (!statement.empty()) parse_statement(statement);
    }
  }

  void parse_statement(const std::string& statement) {
    static const std::regex pattern("(?:@(!?)(%\\w+)\\s+)?([a-zA-Z][\\w.:]*)\\s*(.*)");
    std::smatch match;
    if (!std::regex_match(statement, match, pattern)) fail("not an instruction", statement);
    Instruction i;
    i.line = line_;
    i.text = statement;
    i.opcode = match[3];
    i.negated = match[1].length() > 0;
    if (match[2].length()) i.predicate = register_of(match[2]);
    if (match[4].length()) {
      for (const std::string& operand : split(match[4], ',')) i.operands.push_back(parse_operand(operand));
    }
    decode(i);
    program_.instructions.push_back(std::move(i));
  }

  int register_of(const std::string& name) {
    static const std::regex plain("%[a-z]+\\d+");
    if (!std::regex_match(name, plain) && !is_special(name)) fail("unknown register", name);
    return program_.registers.emplace(name, static_cast<int>(program_.registers.size())).first->second;
  }

  Operand parse_operand(const std::string& text) {
    Operand o;
    if (text.empty()) fail("empty operand", text);
    if (text[0] == '{') {
      o.kind = Operand::Kind::vector;
      for (const std::string& part : split(text.substr(1, text.size() - 2), ','))
        o.parts.push_back(parse_operand(part));
    } else if (text[0] == '[') {
      o.kind = Operand::Kind::address;
      const std::vector<std::string> sum = split(text.substr(1, text.size() - 2), '+');
      o.parts.push_back(parse_operand(sum[0]));
      if (sum.size() > 1) o.offset = std::stoll(sum[1]);
    } else if (text[0] == '%') {
      o.kind = Operand::Kind::reg;
      o.reg = register_of(text);
    } else if (text.starts_with("0f")) {
      o.constant.fill(std::stoull(text.substr(2), nullptr, 16));
    } else if (text[0] == '-' || std::isdigit(static_cast<unsigned char>(text[0]))) {
      o.constant.fill(text[0] == '-' ? static_cast<uint64_t>(std::stoll(text)) : std::stoull(text, nullptr, 0));
    } else if (text == "ligerdsl_shared") {
      o.constant.fill(kSharedBase);
    } else {
      o.kind = Operand::Kind::name;
      o.name = text;
    }
    return o;
  }

  void decode(Instruction& i) {
    const std::vector<std::string> parts = split(i.opcode, '.');
    const std::string& name = parts[0];
    static const std::map<std::string, Kind> kinds{
        {"mov", Kind::move},    {"ld", Kind::load},      {"st", Kind::store},
        {"atom", Kind::atomic}, {"shfl", Kind::shuffle}, {"bar", Kind::barrier},
        {"bra", Kind::branch},  {"ret", Kind::exit},     {"prefetch", Kind::hint}};
    const auto kind = kinds.find(name);
    if (kind == kinds.end()) {
      const Pure* pure = find_pure(i.opcode);
      if (!pure) fail("unknown opcode " + i.opcode, i.text);
      if (i.operands.size() != pure->operands + 1) fail("wrong number of operands", i.text);
      i.function = pure->function;
      return;
    }
    i.kind = kind->second;
    if (i.kind == Kind::load || i.kind == Kind::store) decode_memory(i, parts);
    if (i.kind == Kind::move) decode_move(i, parts);
    if (i.kind == Kind::atomic) decode_atomic(i, parts);
    static const std::regex shuffles("shfl\\.sync\\.(bfly|up|down|idx)\\.b32");
    if (i.kind == Kind::shuffle && !std::regex_match(i.opcode, shuffles)) fail("unknown opcode " + i.opcode, i.text);
    if (i.kind == Kind::barrier &&
        (i.opcode != "bar.sync" || i.operands.size() != 1 || i.operands[0].constant[0] != 0)) {
      fail("unknown barrier", i.text);
    }
    if (i.kind == Kind::hint && i.opcode != "prefetch.global.L2") fail("unknown opcode " + i.opcode, i.text);
    if (i.kind == Kind::branch && i.opcode != "bra" && i.opcode != "bra.uni") fail("unknown opcode", i.text);
  }

  int bytes_of(const Instruction& i, const std::string& type) {
    static const std::regex pattern("[bsuf](8|16|32|64)");
    std::smatch match;
    if (!std::regex_match(type, match, pattern)) fail("unknown type ." + type, i.text);
    return std::stoi(match[1]) / 8;
  }

  void decode_move(Instruction& i, const std::vector<std::string>& parts) {
    if (parts.size() != 2 || i.operands.size() != 2) fail("unknown move", i.text);
    i.bytes = parts[1] == "pred" ? 0 : bytes_of(i, parts[1]);
    if (i.operands[0].kind == Operand::Kind::vector) i.kind = Kind::unpack;
    if (i.operands[1].kind == Operand::Kind::vector) i.kind = Kind::pack;
  }

  void decode_space(Instruction& i, const std::string& space) {
    if (space != "global" && space != "shared" && space != "param") fail("unknown state space ." + space, i.text);
    i.space = space == "global" ? Space::global : space == "shared" ? Space::shared : Space::param;
  }

  void decode_memory(Instruction& i, const std::vector<std::string>& parts) {
    if (parts.size() < 3 || i.operands.size() != 2) fail("unknown memory access", i.text);
    decode_space(i, parts[1]);
    i.bytes = bytes_of(i, parts.back());
    Operand& data = i.operands[i.kind == Kind::load ? 0 : 1];
    size_t count = 1;
    for (size_t p = 2; p + 1 < parts.size(); ++p) {
      if (parts[p] == "v2" || parts[p] == "v4") {
        count = static_cast<size_t>(parts[p][1] - '0');
      } else if (parts[p] != "nc" && !parts[p].starts_with("L1::") && !parts[p].starts_with("L2::")) {
        fail("unknown qualifier ." + parts[p], i.text);  // those named here are hints without meaning for values
      }
    }
    if (data.kind != Operand::Kind::vector) {
      Operand vector;
      vector.kind = Operand::Kind::vector;
      vector.parts.push_back(std::move(data));
      data = std::move(vector);
    }
    if (data.parts.size() != count) fail("wrong number of elements", i.text);
    Operand& address = i.operands[i.kind == Kind::load ? 1 : 0];
    if (address.kind != Operand::Kind::address) fail("expected an address", i.text);
    if (i.space == Space::param) decode_parameter(i, address);
  }

  void decode_parameter(const Instruction& i, Operand& address) {
    const std::string name = address.parts[0].name;
    const std::string prefix = program_.entry + "_param_";
    if (i.kind != Kind::load || !name.starts_with(prefix)) fail("unknown parameter", i.text);
    address.parts[0] = {};
    address.parts[0].constant.fill(8 * std::stoull(name.substr(prefix.size())));
  }

  void decode_atomic(Instruction& i, const std::vector<std::string>& parts) {
    const Pure* pure = parts.size() == 4 ? find_pure(parts[2] + "." + parts[3]) : nullptr;
    if (!pure || parts[1] != "global" || i.operands.size() != 3) fail("unknown opcode " + i.opcode, i.text);
    i.function = pure->function;
    i.bytes = bytes_of(i, parts[3]);
  }

  void resolve_labels() {
    for (Instruction& i : program_.instructions) {
      if (i.kind != Kind::branch) continue;
      const auto label = labels_.find(i.operands.at(0).name);
      if (label == labels_.end()) fail("branch to an unknown label", i.text);
      i.target = label->second;
    }
  }

  Program program_;
  std::map<std::string, size_t> labels_;
  int line_ = 0;
};

}  // namespace

Program parse(const std::string& text) {
  return Parser().run(text);
}

}  // namespace ligerdsl::test::ptx
