#include "lib/tune/space.h"

#include <algorithm>
#include <limits>

namespace ligerdsl::tune {

Space::Space(std::vector<MetaField> fields, Refusal refusal, Bits most)
    : fields_(std::move(fields)), refusal_(std::move(refusal)) {
  for (const MetaField& field : fields_) {
    heuristic_.values.push_back(field.value);
    const bool stays = field.bits == Bits::fixed || field.bits > most || field.choices.empty();
    choices_.push_back(stays ? std::vector<std::string>{field.value} : field.choices);
  }
}

MetaValues Space::values(const Config& config) const {
  MetaValues values;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].bits != Bits::fixed) values[fields_[i].name] = config.values[i];
  }
  return values;
}

std::optional<Config> Space::find(const MetaValues& values) const {
  Config config = heuristic_;
  size_t known = 0;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const auto value = values.find(fields_[i].name);
    if (value == values.end()) continue;
    config.values[i] = value->second;
    ++known;
    if (choice_of(config, i) == choices_[i].size()) return std::nullopt;
  }
  if (known < values.size() || !valid(config)) return std::nullopt;
  return config;
}

std::string Space::text(const Config& config) const {
  std::string text;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].bits == Bits::fixed) continue;
    text += (text.empty() ? "" : " ") + fields_[i].name + "=" + config.values[i];
  }
  return text;
}

bool Space::valid(const Config& config) const {
  const auto [entry, first] = known_.try_emplace(config, false);
  if (first) entry->second = refusal_(values(config)).empty();
  return entry->second;
}

size_t Space::choice_of(const Config& config, size_t field) const {
  const auto& choices = choices_[field];
  return static_cast<size_t>(std::find(choices.begin(), choices.end(), config.values[field]) -
                             choices.begin());
}

std::vector<Config> Space::adjacent(const Config& config) const {
  std::vector<Config> found;
  for (size_t i = 0; i < fields_.size(); ++i) {
    for (const std::string& choice : choices_[i]) {
      Config one = config;
      if (choice == config.values[i]) continue;
      one.values[i] = choice;
      if (valid(one)) {
        found.push_back(std::move(one));
        continue;
      }
      for (size_t j = 0; j < fields_.size(); ++j) {
        if (j == i) continue;
        // Tries the nearest choices first.
        const auto here = static_cast<int64_t>(choice_of(one, j)), count = std::ssize(choices_[j]);
        bool made = false;
        for (int64_t distance = 1; distance < count && !made; ++distance) {
          for (const int64_t other : {here + distance, here - distance}) {
            if (other < 0 || other >= count || made) continue;
            Config two = one;
            two.values[j] = choices_[j][static_cast<size_t>(other)];
            made = valid(two);
            if (made) found.push_back(std::move(two));
          }
        }
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Config Space::random(std::mt19937_64& generator) const {
  Config config = heuristic_;
  for (uint64_t steps = 1 + generator() % 4; steps > 0; --steps) {
    const std::vector<Config> near = adjacent(config);
    if (near.empty()) break;
    config = near[generator() % near.size()];
  }
  return config;
}

int64_t Space::combinations() const {
  int64_t product = 1;
  for (const auto& choices : choices_) {
    const int64_t count = std::ssize(choices);
    if (product > std::numeric_limits<int64_t>::max() / count)
      return std::numeric_limits<int64_t>::max();
    product *= count;
  }
  return product;
}

void Space::each(const std::function<bool(const Config&)>& body) const {
  std::vector<size_t> at(choices_.size(), 0);
  for (;;) {
    Config config;
    for (size_t i = 0; i < at.size(); ++i) config.values.push_back(choices_[i][at[i]]);
    if (refusal_(values(config)).empty() && !body(config)) return;
    size_t i = at.size();
    while (i > 0 && ++at[i - 1] == choices_[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace ligerdsl::tune
