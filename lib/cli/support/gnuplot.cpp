#include "lib/cli/support/gnuplot.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "lib/cli/support/examine.h"
#include "lib/text/output.h"
#include "lib/text/printable.h"
#include "runtime/environment/temporary_folder.h"
#include "runtime/system/subprocess.h"

namespace ligerdsl::cli {

void require_gnuplot(const std::string& use) {
  if (find_program("gnuplot").empty())
    throw Failure(kNothingFound,
                  fmt::format("{} needs gnuplot, which is not in PATH; install it (Debian: apt-get "
                              "install gnuplot-nox)",
                              use));
}

std::string gnuplot_text(std::string_view text) {
  std::string quoted = "'";
  for (const char c : printable(text)) {
    if (c == '\'') quoted += '\'';
    quoted += c == '\n' || c == '\t' ? ' ' : c;
  }
  return quoted + "'";
}

std::string drawn_by_gnuplot(const std::string& commands, int stop) {
  require_gnuplot("this picture");
  const runtime::TemporaryFolder folder;
  const std::string picture = folder.path() + "/picture";
  const std::string script =
      folder.write("commands", fmt::format("set output {}\n{}", gnuplot_text(picture), commands));
  // With -d, gnuplot ignores the user's startup files.
  const runtime::ProcessResult result =
      runtime::run_process({"gnuplot", "-d", script}, {.stop = stop});
  if (result.stopped) throw Failure(kInterrupted, "interrupted");
  if (!result.succeeded)
    throw Failure(kNothingFound, fmt::format("gnuplot failed: {}\n{}", result.end, result.output));
  std::ifstream file(picture, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace ligerdsl::cli
