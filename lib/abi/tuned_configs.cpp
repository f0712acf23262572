#include "lib/abi/tuned_configs.h"

#include <algorithm>

#include "runtime/environment/log.h"
#include "runtime/system/status.h"

namespace ligerdsl::lib {

namespace {

// Replaces control characters, because a table from an unknown source must not control the terminal
// that shows the log.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '_');
  return text;
}

}  // namespace

std::string taken_text(std::string_view call, const TunedTable& table, std::string_view model) {
  return printable(std::string(call)
                       .append(": configured by table \"")
                       .append(table.name())
                       .append("\", tuned on ")
                       .append(model));
}

std::string TunedConfigs::refusal(const ConfigQuestion& question, std::string_view config,
                                  MetaValues* read) const {
  try {
    *read = config_values(config);
  } catch (const runtime::Error& error) {
    return error.what();
  }
  const MetaValues& values = *read;
  if (const std::string reason = question.refusal(values); !reason.empty()) return reason;
  if (tuning_ != runtime::Tuning::same) return "";
  for (const MetaField& field : question.heuristic()) {
    const auto value = values.find(field.name);
    if (value == values.end() || value->second == field.value || field.bits == Bits::same) continue;
    return field.name + "=" + value->second +
           " changes results, which LIGERDSL_TUNING=same forbids";
  }
  return "";
}

ConfigSource TunedConfigs::look_up(const ConfigQuestion& question) {
  ConfigSource source;
  const bool gpu = is_gpu_();
  std::optional<TunedDevice> device;
  const std::string kernel = question.kernel(), options = question.options();
  for (const auto& table : tables_) {
    if (!table->has(kernel, question.version(), options, gpu)) continue;
    if (!device) device = device_();
    const auto found = table->find(kernel, question.version(), options, *device);
    if (!found) continue;
    MetaValues values;
    if (const std::string reason = refusal(question, found->config, &values); !reason.empty()) {
      source.passed.push_back("table \"" + table->name() + "\" says " + std::string(found->config) +
                              ", which is not used: " + reason);
      continue;
    }
    source.values = std::move(values);
    source.table = table.get();
    source.model = found->model;
    break;
  }
  return source;
}

std::optional<TunedConfigs::AuthorEntry> TunedConfigs::author_entry(
    std::string_view kernel, std::string_view options) const {
  constexpr int kVersion = 1;  // authors' kernels have no versions
  if (tuning_ != runtime::Tuning::any) return std::nullopt;
  const bool gpu = is_gpu_();
  for (const auto& table : tables_) {
    if (!table->has(kernel, kVersion, options, gpu)) continue;
    if (const auto found = table->find(kernel, kVersion, options, device_()))
      return AuthorEntry{found->config, table.get(), found->model};
  }
  return std::nullopt;
}

MetaValues TunedConfigs::changed(const std::shared_ptr<const ConfigQuestion>& question) {
  ConfigSource source = look_up(*question);
  using runtime::LogLevel;
  const auto name = [&] { return question->kernel() + " " + question->options(); };
  for (const std::string& sentence : source.passed)
    runtime::log(LogLevel::info, printable(name() + ": " + sentence));
  if (source.table && runtime::log_enabled(LogLevel::info))
    runtime::log(LogLevel::info, taken_text(name(), *source.table, source.model));
  return std::move(source.values);
}

}  // namespace ligerdsl::lib
