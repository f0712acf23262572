// Shell completion. A script for the shell asks `ligerdsl complete WORD...` what may follow, so that it knows kernels of
// --load and never differs from what the command understands.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/options/command_line.h"

namespace ligerdsl::cli {

struct Candidate {
  std::string word;  // kFiles: the shell's own names of files
  std::string about;
};
inline constexpr const char* kFiles = ":files";

// `words` begin with the command's name; the last is being typed. A word that ends in = goes on behind it.
std::vector<Candidate> complete(const CommandLine& line, std::vector<std::string> words);

std::string bash_completion();
std::string zsh_completion();

}  // namespace ligerdsl::cli
