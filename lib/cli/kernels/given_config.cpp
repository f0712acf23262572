#include "lib/cli/kernels/given_config.h"

namespace ligerdsl::cli {

std::vector<std::string> with_config(std::vector<std::string> settings, const MetaValues& config) {
  for (const auto& [name, value] : config) {
    std::erase_if(settings, [&, &field = name](const std::string& each) {
      return each.starts_with(field + "=");
    });
    settings.push_back(name + "=" + value);
  }
  return settings;
}

void load_kernels(const AuthorKernels& authors, const std::string& kernel,
                  const std::vector<std::string>& settings, const MetaValues& config,
                  const lib::ContextRef& context) {
  const GivenConfig given(*context, config);
  load_kernels(authors, kernel, authors.find(kernel) ? with_config(settings, config) : settings,
               context);
}

}  // namespace ligerdsl::cli
