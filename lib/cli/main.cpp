// The `ligerdsl` command: parses arguments, runs a subcommand and returns its exit code. options/
// defines the options.
#include <fmt/format.h>

#include <new>
#include <sstream>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/usage.h"
#include "ligerdsl/dsl/error.h"
#include "runtime/system/status.h"

using namespace ligerdsl;
using namespace ligerdsl::cli;

namespace {

int report(int code, const std::string& message) {
  print_error(message);
  return code;
}

int exit_code_of(runtime::Status status) {
  switch (status) {
    case runtime::Status::no_device:
    case runtime::Status::driver_too_old:
    case runtime::Status::arch_not_supported:
      return kNoDevice;
    default:
      return static_cast<int>(status) / 1000 == 2 ? kUsage : kNothingFound;
  }
}

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Failure& failure) {
    return report(failure.code, failure.what());
  } catch (const runtime::Error& error) {
    return report(exit_code_of(error.status()),
                  fmt::format("{}: {}", runtime::status_name(static_cast<int32_t>(error.status())),
                              error.what()));
  } catch (const Error& error) {
    return report(kUsage, error.what());
  } catch (const std::bad_alloc&) {
    return report(kNothingFound, "the `ligerdsl` command ran out of host memory");
  } catch (const std::exception& error) {
    return report(kNothingFound, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report(kUsage, usage_error(line.app, error));
    std::ostringstream help;  // receives the help text or the version
    line.app.exit(error, help, help);
    print_text(help.str());
    return finish_output(kOk);
  }
  if (is_standard_output(line.globals.json)) line.globals.json = "-";
  return finish_output(guarded(line.chosen));
}
