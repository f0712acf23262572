// Decodes opcodes that compute, access memory or branch. decode_sync.cpp decodes warp-wide
// instructions, synchronisation and copies.
#include <algorithm>
#include <bit>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test::ptx {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what);
}

std::vector<std::string> parts_of(const std::string& opcode) {
  std::vector<std::string> parts;
  std::istringstream in(opcode);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  return parts;
}

int bytes_of(const std::string& type) {
  static const std::map<std::string, int> sizes{{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
  const bool known = !type.empty() && std::string("bsuf").find(type[0]) != std::string::npos;
  const auto size = known ? sizes.find(type.substr(1)) : sizes.end();
  if (size == sizes.end()) fail("unknown type ." + type);
  return size->second;
}

bool orders(const std::string& part) {
  return part == "acquire" || part == "release" || part == "acq_rel" || part == "relaxed";
}

bool is_scope(const std::string& part) {
  return part == "cta" || part == "cluster" || part == "gpu" || part == "sys";
}

// Returns the index of the parameter with this name, such as 2 for k_param_2.
size_t parameter_of(const std::string& name, const std::string& entry) {
  const std::string prefix = entry + "_param_";
  if (!name.starts_with(prefix)) fail("unknown parameter");
  return std::stoull(name.substr(prefix.size()));
}

void decode_move(Instruction& i, const std::vector<std::string>& parts, const std::string& entry) {
  if (i.operands.size() == 2 && i.operands[1].kind == Operand::Kind::name) {
    i.kind = Kind::parameter_address;
    i.operands[1].offset = static_cast<int64_t>(parameter_of(i.operands[1].name, entry));
  }
  if (parts.size() != 2 || i.operands.size() != 2) fail("unknown move");
  i.bytes = parts[1] == "pred" ? 0 : bytes_of(parts[1]);
  if (i.operands[0].kind == Operand::Kind::vector) i.kind = Kind::unpack;
  if (i.operands[1].kind == Operand::Kind::vector) i.kind = Kind::pack;
}

Space space_of(const std::string& part) {
  static const std::map<std::string, Space> spaces{{"global", Space::global},
                                                   {"shared", Space::shared},
                                                   {"shared::cta", Space::shared},
                                                   {"shared::cluster", Space::cluster},
                                                   {"param", Space::param}};
  const auto space = spaces.find(part);
  if (space == spaces.end()) fail("unknown state space ." + part);
  return space->second;
}

void decode_parameter(const Instruction& i, Operand& address, const std::string& entry) {
  if (i.kind != Kind::load) fail("unknown parameter");
  const size_t number = parameter_of(address.parts[0].name, entry);
  address.parts[0] = {};
  address.parts[0].constant.fill(8 * number);
}

// Ignores memory orders and scopes, because there are no race checks in global memory.
void decode_memory(Instruction& i, const std::vector<std::string>& parts,
                   const std::string& entry) {
  size_t first = 1, count = 1;
  if (std::find(parts.begin(), parts.end(), "L2::cache_hint") != parts.end()) {  // a cache policy
    if (i.operands.size() != 3) fail("expected a cache policy");
    i.operands.pop_back();
  }
  while (first < parts.size() && (orders(parts[first]) || is_scope(parts[first]))) ++first;
  if (parts.size() < first + 2 || i.operands.size() != 2) fail("unknown memory access");
  i.space = space_of(parts[first]);
  if (first > 1 && i.space != Space::global) fail("unknown memory access");
  i.bytes = bytes_of(parts.back());
  i.extends_sign = parts.back()[0] == 's';
  Operand& data = i.operands[i.kind == Kind::load ? 0 : 1];
  for (size_t p = first + 1; p + 1 < parts.size(); ++p) {
    if (parts[p] == "v2" || parts[p] == "v4") {
      count = static_cast<size_t>(parts[p][1] - '0');
    } else if (parts[p] != "nc" && !parts[p].starts_with("L1::") && !parts[p].starts_with("L2::")) {
      fail("unknown qualifier ." + parts[p]);  // permitted ones are hints without effect
    }
  }
  if (data.kind != Operand::Kind::vector) {
    Operand vector;
    vector.kind = Operand::Kind::vector;
    vector.parts.push_back(std::move(data));
    data = std::move(vector);
  }
  if (data.parts.size() != count) fail("wrong number of elements");
  Operand& address = i.operands[i.kind == Kind::load ? 1 : 0];
  if (address.kind != Operand::Kind::address) fail("expected an address");
  if (i.space == Space::param) decode_parameter(i, address, entry);
}

// red.add stores the sum of the memory's value and the operand.
void decode_reduction(Instruction& i, std::vector<std::string> parts, const std::string& entry) {
  const auto add = std::find(parts.begin(), parts.end(), "add");
  if (add == parts.end() || parts.back() != "f32") fail("unknown opcode " + i.opcode);
  parts.erase(add);
  decode_memory(i, parts, entry);
  if (i.space != Space::global) fail("unknown opcode " + i.opcode);
  i.function = add_in_memory;
}

void decode_atomic(Instruction& i, std::vector<std::string> parts) {
  std::erase_if(parts, [](const std::string& part) { return orders(part) || is_scope(part); });
  const Pure* pure = parts.size() == 4 ? find_pure(parts[2] + "." + parts[3]) : nullptr;
  if (!pure || parts[1] != "global" || i.operands.size() != pure->operands + 1)
    fail("unknown opcode " + i.opcode);
  i.function = pure->function;
  i.bytes = bytes_of(parts[3]);
}

// For prmt with a constant selector, marks an operand as unused if none of its bytes is selected.
void forget_unselected(Instruction& i) {
  const Operand& selector = i.operands[3];
  if (selector.kind != Operand::Kind::constant) return;
  bool taken[2] = {};
  for (int digit = 0; digit < 4; ++digit) taken[selector.constant[0] >> (4 * digit + 2) & 1] = true;
  for (const int source : {0, 1})
    if (!taken[source]) i.operands[1 + source] = {};
}

void decode_pure(Instruction& i) {
  const Pure* pure = find_pure(i.opcode);
  if (!pure && i.opcode.ends_with("16x2")) {
    pure = find_pure(i.opcode.substr(0, i.opcode.size() - 2));
    i.pairs = true;
  }
  if (!pure) fail("unknown opcode " + i.opcode);
  if (i.operands.size() != pure->operands + 1) fail("wrong number of operands");
  i.function = pure->function;
  i.all = pure->all;
  if (i.opcode == "prmt.b32") forget_unselected(i);
}

}  // namespace

uint64_t add_in_memory(uint64_t held, uint64_t given, uint64_t) {
  const auto flushed = [](uint64_t bits) {
    const auto number = static_cast<uint32_t>(bits);
    return (number & 0x7f800000u) == 0 ? number & 0x80000000u : number;
  };
  const float sum = std::bit_cast<float>(flushed(held)) + std::bit_cast<float>(flushed(given));
  return flushed(std::bit_cast<uint32_t>(sum));
}

void decode(Instruction& i, const std::string& entry) {
  const std::vector<std::string> parts = parts_of(i.opcode);
  static const std::map<std::string, Kind> kinds{
      {"mov", Kind::move},       {"ld", Kind::load},     {"st", Kind::store},
      {"red", Kind::store},      {"atom", Kind::atomic}, {"bra", Kind::branch},
      {"ret", Kind::exit},       {"exit", Kind::exit},   {"prefetch", Kind::prefetch},
      {"bfi", Kind::insert_bits}};
  if (decode_sync(i)) return;
  const auto kind = kinds.find(parts[0]);
  if (kind == kinds.end()) return decode_pure(i);
  i.kind = kind->second;
  if (parts[0] == "red") return decode_reduction(i, parts, entry);
  if (i.kind == Kind::load || i.kind == Kind::store) decode_memory(i, parts, entry);
  if (i.kind == Kind::move) decode_move(i, parts, entry);
  if (i.kind == Kind::atomic) decode_atomic(i, parts);
  if (i.kind == Kind::prefetch && i.opcode != "prefetch.global.L2")
    fail("unknown opcode " + i.opcode);
  if (i.kind == Kind::insert_bits && i.opcode != "bfi.b32") fail("unknown opcode " + i.opcode);
  if (i.kind == Kind::insert_bits && i.operands.size() != 5) fail("wrong number of operands");
  if (i.kind == Kind::branch && i.opcode != "bra" && i.opcode != "bra.uni") fail("unknown opcode");
}

}  // namespace ligerdsl::test::ptx
