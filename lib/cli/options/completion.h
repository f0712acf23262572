// Shell completion. The shell's script runs `ligerdsl complete WORD...` to get candidates. The
// candidates therefore include kernels loaded with --load and match the options of the installed
// command.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/options/command_line.h"

namespace ligerdsl::cli {

struct Candidate {
  std::string word;  // kFiles: the shell completes file names
  std::string about;
};
inline constexpr const char* kFiles = ":files";

// `words` begin with the command's name; the last one is being typed. After a candidate that ends
// in =, the shell adds no space.
std::vector<Candidate> complete(const CommandLine& line, std::vector<std::string> words);

std::string bash_completion();
std::string zsh_completion();

}  // namespace ligerdsl::cli
