// Shell completion. The shell's script asks `ligerdsl complete WORD...` for candidates, so these
// include kernels of --load and always match the command line.
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

// `words` begin with the command's name; the last one is being typed. A candidate that ends in = is
// not complete.
std::vector<Candidate> complete(const CommandLine& line, std::vector<std::string> words);

std::string bash_completion();
std::string zsh_completion();

}  // namespace ligerdsl::cli
