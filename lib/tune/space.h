// The configurations that a kernel may have: every combination of the choices of its fields that the kernel accepts.
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

// A value for each field of a space, in its order.
struct Config {
  std::vector<std::string> values;
  auto operator<=>(const Config&) const = default;
};

class Space {
 public:
  using Refusal = std::function<std::string(const MetaValues&)>;  // why a configuration cannot be; empty: it can

  // `fields` have the heuristic's values. Fields that change more in the results than `most` stay as they are, and so
  // do those of Bits::fixed.
  Space(std::vector<MetaField> fields, Refusal refusal, Bits most);

  const Config& heuristic() const { return heuristic_; }
  bool valid(const Config& config) const;
  // One field changed to another choice; where that alone is not valid, one more, the nearest that makes it so.
  std::vector<Config> neighbours(const Config& config) const;
  // Some steps away from the heuristic.
  Config random(std::mt19937_64& generator) const;
  // Combinations of choices, valid or not; at most INT64_MAX.
  int64_t combinations() const;
  // Calls with every valid configuration until `body` returns false.
  void each(const std::function<bool(const Config&)>& body) const;

  MetaValues values(const Config& config) const;
  // The other way; fields that are not named are the heuristic's. None where that is no valid configuration of these.
  std::optional<Config> find(const MetaValues& values) const;
  std::string text(const Config& config) const;  // "num_warps=8 rows=4"
  const std::vector<MetaField>& fields() const { return fields_; }

 private:
  size_t choice_of(const Config& config, size_t field) const;

  std::vector<MetaField> fields_;
  std::vector<std::vector<std::string>> choices_;  // by field: those that may be taken
  Refusal refusal_;
  Config heuristic_;
  mutable std::map<Config, bool> known_;
};

}  // namespace ligerdsl::tune
