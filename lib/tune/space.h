// A kernel's configurations: all combinations of its fields' choices that the kernel accepts.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::tune {

// A value for each field of a space, in field order.
struct Config {
  std::vector<std::string> values;
  auto operator<=>(const Config&) const = default;
};

class Space {
 public:
  using Refusal = std::function<std::string(const MetaValues&)>;  // why a configuration is invalid;
                                                                  // "" if it is valid

  // `fields` have the heuristic's values. Fields with Bits::fixed, and fields that affect results
  // more than `most` allows, keep these values.
  Space(std::vector<MetaField> fields, Refusal refusal, Bits most);

  const Config& heuristic() const { return heuristic_; }
  bool valid(const Config& config) const;
  // Returns valid configurations that differ from `config` in one field. If a change of one field
  // is invalid alone, one other field also changes, to its nearest choice that makes the
  // configuration valid. Each other field gives at most one such configuration.
  std::vector<Config> adjacent(const Config& config) const;
  // Returns a configuration that 1 to 4 random steps to adjacent() ones reach from the heuristic's.
  Config random(std::mt19937_64& generator) const;
  // Returns the number of combinations of choices, valid or not, at most INT64_MAX.
  int64_t combinations() const;
  // Calls `body` with every valid configuration until it returns false.
  void each(const std::function<bool(const Config&)>& body) const;

  MetaValues values(const Config& config) const;
  // Returns the configuration with these values, and the heuristic's in other fields. Returns
  // nothing if it is invalid in this space.
  std::optional<Config> find(const MetaValues& values) const;
  std::string text(const Config& config) const;  // "num_warps=8 rows=4"
  const std::vector<MetaField>& fields() const { return fields_; }

 private:
  size_t choice_of(const Config& config, size_t field) const;

  std::vector<MetaField> fields_;
  std::vector<std::vector<std::string>> choices_;  // choices to search, indexed by field
  Refusal refusal_;
  Config heuristic_;
  mutable std::map<Config, bool> known_;
};

}  // namespace ligerdsl::tune
