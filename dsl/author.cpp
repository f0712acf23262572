// Both sides of the C table in author.h: exports this binary's kernels, and imports those of other
// binaries.
#include "ligerdsl/dsl/author.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ligerdsl/dsl/arguments.h"
#include "ligerdsl/dsl/kernel.h"

namespace ligerdsl {
namespace {

ligerdsl_author_bytes copy_bytes(const std::string& text) {
  auto* data = static_cast<char*>(std::malloc(text.size() + 1));
  if (!data) return {nullptr, 0};
  std::memcpy(data, text.data(), text.size());
  data[text.size()] = '\0';
  return {data, text.size()};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, separator)) parts.push_back(part);
  return parts;
}

MetaValues parse_settings(const std::string& text) {
  MetaValues values;
  for (const std::string& pair : split(text, ',')) {
    const size_t equal = pair.find('=');
    if (equal == std::string::npos)
      throw Error("error: expected meta-parameters as name=value, got '" + pair + "'");
    values[pair.substr(0, equal)] = pair.substr(equal + 1);
  }
  return values;
}

std::string settings_text(const MetaValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

std::string fields_text(const std::vector<MetaField>& fields) {
  std::string text;
  for (const MetaField& field : fields) {
    text += field.name + "\t" + field.type + "\t" + field.value + "\t";
    for (size_t i = 0; i < field.choices.size(); ++i) text += (i ? "," : "") + field.choices[i];
    text += std::string("\t") + name(field.bits) + "\n";
  }
  return text;
}

// Returns the Bits with this name, or Bits::fixed for an empty or unknown name.
Bits parse_bits(const std::string& text) {
  for (const Bits bits : {Bits::same, Bits::row, Bits::batch}) {
    if (text == name(bits)) return bits;
  }
  return Bits::fixed;
}

const AnyKernel& kernel_at(size_t index) {
  if (!Registry::global().problems().empty()) throw Error(Registry::global().problems().front());
  const auto& kernels = Registry::global().all();
  if (index >= kernels.size())
    throw Error("error: expected the index of one of " + std::to_string(kernels.size()) +
                " kernels, got " + std::to_string(index));
  return *kernels[index];
}

// Runs `body` and converts exceptions to messages, because none may cross the table.
template <class Body>
int32_t guarded(ligerdsl_author_bytes* error, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    *error = copy_bytes(failure.what());
  } catch (...) {
    *error = copy_bytes("error: the kernel threw an exception other than std::exception");
  }
  return 1;
}

int32_t describe(size_t index, ligerdsl_author_bytes* name, ligerdsl_author_bytes* description,
                 ligerdsl_author_bytes* fields, ligerdsl_author_bytes* error) {
  return guarded(error, [&] {
    const AnyKernel& kernel = kernel_at(index);
    *name = copy_bytes(kernel.name());
    *description = copy_bytes(kernel.description());
    *fields = copy_bytes(fields_text(kernel.fields()));
  });
}

std::optional<Target> maybe_target(const ligerdsl_target_t* target, size_t target_bytes) {
  return target ? std::optional(target_from(target, target_bytes)) : std::nullopt;
}

int32_t record_for(size_t index, const char* settings, const ligerdsl_target_t* target,
                   size_t target_bytes, ligerdsl_author_bytes* program,
                   ligerdsl_author_bytes* error) {
  return guarded(error, [&] {
    const std::optional<Target> known = maybe_target(target, target_bytes);
    *program = copy_bytes(kernel_at(index).program_bytes(parse_settings(settings), known));
  });
}

int32_t record_kernel(size_t index, const char* settings, ligerdsl_author_bytes* program,
                      ligerdsl_author_bytes* error) {
  return record_for(index, settings, nullptr, 0, program, error);
}

// Returns element i of the other binary's array. Fields that the other binary lacks are 0.
template <class T>
T sized(const T* array, size_t i) {
  T copy{};
  const size_t size = array->struct_size;
  std::memcpy(&copy, reinterpret_cast<const char*>(array) + i * size, std::min(size, sizeof(T)));
  return copy;
}

// Copies a value to the other binary. Throws if a field that the other binary lacks is nonzero.
template <class T>
void give(const T& value, T* out) {
  const auto* bytes = reinterpret_cast<const char*>(&value);
  const size_t size = out->struct_size;
  if (std::any_of(bytes + std::min(size, sizeof(T)), bytes + sizeof(T),
                  [](char byte) { return byte != 0; }))
    throw Error(
        "error: the launch rule sets a field of Launch that the loading program does not support: "
        "expected a launch of at most " +
        std::to_string(size) + " bytes, got " + std::to_string(sizeof(T)) +
        "; use a newer version of that program, or build the kernels against its headers");
  std::memcpy(out, bytes, std::min(size, sizeof(T)));
  out->struct_size = size;
}

ligerdsl_author_launch crossing(const Launch& rule) {
  ligerdsl_author_launch launch{.struct_size = sizeof(ligerdsl_author_launch),
                                .num_warps = rule.num_warps,
                                .num_ctas = rule.num_ctas,
                                .num_stages = rule.num_stages,
                                .min_ctas_per_sm = rule.min_ctas_per_sm,
                                .max_registers = rule.max_registers,
                                .no_alias = rule.no_alias};
  const auto programs = rule.programs();
  std::copy(programs.begin(), programs.end(), launch.grid);
  return launch;
}

Launch crossed(const ligerdsl_author_launch& launch) {
  return {.grid = {launch.grid[0], launch.grid[1], launch.grid[2]},
          .num_warps = launch.num_warps,
          .num_ctas = launch.num_ctas,
          .num_stages = launch.num_stages,
          .min_ctas_per_sm = launch.min_ctas_per_sm,
          .max_registers = launch.max_registers,
          .no_alias = launch.no_alias != 0};
}

int32_t launch_for(size_t index, const char* settings, const ligerdsl_target_t* target,
                   size_t target_bytes, const ligerdsl_author_argument* arguments,
                   size_t n_arguments, ligerdsl_author_launch* launch,
                   ligerdsl_author_bytes* error) {
  return guarded(error, [&] {
    std::vector<LaunchArguments::Argument> list;
    for (size_t i = 0; i < n_arguments; ++i) {
      const ligerdsl_author_argument a = sized<ligerdsl_author_argument>(arguments, i);
      LaunchArguments::Argument argument{
          .name = a.name, .number = a.number, .pointer = a.is_pointer != 0};
      if (a.is_integer) argument.integer = a.integer;
      if (a.rank > 0) {
        argument.dims.assign(a.dims, a.dims + a.rank);
        argument.strides.assign(a.strides, a.strides + a.rank);
      }
      list.push_back(std::move(argument));
    }
    const LaunchArguments call(std::move(list), maybe_target(target, target_bytes));
    give(crossing(kernel_at(index).launch(parse_settings(settings), call)), launch);
  });
}

int32_t launch_kernel(size_t index, const char* settings, const ligerdsl_author_argument* arguments,
                      size_t n_arguments, ligerdsl_author_launch* launch,
                      ligerdsl_author_bytes* error) {
  return launch_for(index, settings, nullptr, 0, arguments, n_arguments, launch, error);
}

// A kernel of another binary.
class LoadedKernel : public AnyKernel {
 public:
  LoadedKernel(const ligerdsl_author_table* table, size_t index) : table_(table), index_(index) {
    ligerdsl_author_bytes name{}, description{}, fields{}, error{};
    check(table->describe(index, &name, &description, &fields, &error), error);
    name_ = take(name);
    description_ = take(description);
    for (const std::string& line : split(take(fields), '\n')) {
      std::vector<std::string> columns = split(line, '\t');
      columns.resize(5);
      fields_.push_back(
          {columns[0], columns[1], columns[2], split(columns[3], ','), parse_bits(columns[4])});
    }
    detail::require_distinct_names(name_, fields_, {});
  }

  std::string name() const override { return name_; }
  std::string description() const override { return description_; }
  std::vector<MetaField> fields() const override { return fields_; }

  std::string program_bytes(const MetaValues& meta,
                            const std::optional<Target>& target) const override {
    ligerdsl_author_bytes program{}, error{};
    const std::string settings = settings_text(meta);
    const bool with_target = target && takes_targets();
    check(with_target ? table_->record_for(index_, settings.c_str(), &*target,
                                           sizeof(ligerdsl_target_t), &program, &error)
                      : table_->record(index_, settings.c_str(), &program, &error),
          error);
    std::string bytes = take(program);
    std::vector<std::string> arguments;
    for (const DeclaredArgument& argument : arguments_of(bytes)) {
      if (!argument.hidden) arguments.push_back(argument.name);
    }
    detail::require_distinct_names(name_, fields_, arguments);
    return bytes;
  }

  Launch launch(const MetaValues& meta, const LaunchArguments& arguments) const override {
    std::vector<ligerdsl_author_argument> list;
    for (const LaunchArguments::Argument& a : arguments.all()) {
      const double number = a.integer ? static_cast<double>(*a.integer) : a.number;
      list.push_back({sizeof(ligerdsl_author_argument), a.name.c_str(),
                      static_cast<int32_t>(a.dims.size()), a.dims.data(), a.strides.data(), number,
                      a.integer.has_value(), a.pointer, a.integer.value_or(0)});
    }
    ligerdsl_author_launch launch{};
    launch.struct_size = sizeof launch;
    ligerdsl_author_bytes error{};
    const std::string settings = settings_text(meta);
    const bool with_target = arguments.has_target() && takes_targets();
    check(with_target
              ? table_->launch_for(index_, settings.c_str(), &arguments.target(),
                                   sizeof(ligerdsl_target_t), list.data(), list.size(), &launch,
                                   &error)
              : table_->launch(index_, settings.c_str(), list.data(), list.size(), &launch, &error),
          error);
    Launch rule = crossed(launch);
    detail::require_possible(name_, rule);
    return rule;
  }

 private:
  // Returns true if the other binary's table has record_for and launch_for, which take a target.
  bool takes_targets() const {
    constexpr size_t kEnd = offsetof(ligerdsl_author_table, launch_for) + sizeof table_->launch_for;
    return table_->struct_size >= kEnd && table_->record_for && table_->launch_for;
  }
  std::string take(ligerdsl_author_bytes bytes) const {
    std::string text(bytes.data ? bytes.data : "", bytes.data ? bytes.size : 0);
    table_->free_bytes(bytes);
    return text;
  }
  void check(int32_t status, ligerdsl_author_bytes error) const {
    if (status != 0) throw Error(with_kernel_name(take(error)));
  }

  // Inserts the kernel's name after "error: " unless the message has the name.
  std::string with_kernel_name(const std::string& text) const {
    if (name_.empty() || text.find("'" + name_ + "'") != std::string::npos) return text;
    const std::string word = "error: ";
    const size_t at = text.find(word);
    const size_t head = at == std::string::npos ? 0 : at + word.size();
    return (head > 0 ? text.substr(0, head) : word) + "kernel '" + name_ +
           "': " + text.substr(head);
  }

  const ligerdsl_author_table* table_;
  size_t index_;
  std::string name_, description_;
  std::vector<MetaField> fields_;
};

}  // namespace

const ligerdsl_author_table* author_table() {
  static const ligerdsl_author_table table = {
      LIGERDSL_AUTHOR_VERSION,
      sizeof(ligerdsl_author_table),
      // Counts at least one kernel if a registration failed. A request for any kernel then returns
      // the error of the registration.
      [] {
        return std::max(Registry::global().all().size(),
                        size_t{!Registry::global().problems().empty()});
      },
      describe,
      record_kernel,
      launch_kernel,
      [](ligerdsl_author_bytes bytes) { std::free(bytes.data); },
      record_for,
      launch_for,
  };
  return &table;
}

std::vector<std::unique_ptr<AnyKernel>> kernels_of(const ligerdsl_author_table* table) {
  if (!table)
    throw Error(
        "error: expected a kernel table, got null; export the kernels with "
        "LIGERDSL_EXPORT_KERNELS()");
  if (table->version != LIGERDSL_AUTHOR_VERSION) {
    throw Error("error: the kernel table has version " + std::to_string(table->version) +
                ", but this program expects version " + std::to_string(LIGERDSL_AUTHOR_VERSION) +
                "; rebuild the kernels against the installed headers");
  }
  constexpr size_t kFirst =
      offsetof(ligerdsl_author_table, record_for);  // size of the shortest table of this version
  if (table->struct_size < kFirst || !table->count || !table->describe || !table->record ||
      !table->launch || !table->free_bytes)
    throw Error(
        "error: the kernel table lacks functions; export the kernels with "
        "LIGERDSL_EXPORT_KERNELS()");
  constexpr size_t kMostKernels = 65536;  // ligerdsl/kernels.py has the same limit
  const size_t count = table->count();
  if (count > kMostKernels)
    throw Error("error: the kernel table has " + std::to_string(count) +
                " kernels, expected at most " + std::to_string(kMostKernels));
  std::vector<std::unique_ptr<AnyKernel>> kernels;
  for (size_t i = 0; i < count; ++i) kernels.push_back(std::make_unique<LoadedKernel>(table, i));
  return kernels;
}

}  // namespace ligerdsl
