#include "lib/cli/options/completion.h"

namespace ligerdsl::cli {

// Bash also splits words at = and : (COMP_WORDBREAKS). The script joins the parts of a word again,
// and of each candidate it returns only the part after the last = or :.
std::string bash_completion() {
  return R"(# Bash completion of ligerdsl: runs `ligerdsl complete` to get the candidates.
_ligerdsl() {
  local line=${COMP_LINE:0:COMP_POINT} words=() part candidate
  local i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    part=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $line == [[:space:]]* ]] || { ((i == COMP_CWORD)) && [[ -z $line && -z $part ]]; }; then
      line=${line#"${line%%[![:space:]]*}"}
      words+=("")
    fi
    ((i == COMP_CWORD)) && part=$line
    words[${#words[@]} - 1]+=$part
    line=${line#"$part"}
  done
  local word=${words[${#words[@]} - 1]} glued
  glued=${word%"${word##*[=:]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    if [[ $candidate == :files ]]; then
      compopt -o default 2>/dev/null
      COMPREPLY=()
      return
    fi
    [[ $candidate == *= ]] && compopt -o nospace 2>/dev/null
    COMPREPLY+=("${candidate#"$glued"}")
  done < <(command "${words[0]/#\~/$HOME}" complete "${words[@]}" 2>/dev/null)
}
complete -F _ligerdsl ligerdsl
)";
}

std::string zsh_completion() {
  return R"(#compdef ligerdsl
# Zsh completion of ligerdsl: runs `ligerdsl complete` to get the candidates.
_ligerdsl() {
  local line candidate about
  local -a plain described open
  while IFS=$'\t' read -r candidate about; do
    if [[ $candidate == :files ]]; then
      compset -P '*='
      _files
      return
    elif [[ $candidate == *= ]]; then
      open+=("$candidate")
    elif [[ -n $about ]]; then
      described+=("${candidate//:/\\:}:$about")
    else
      plain+=("$candidate")
    fi
  done < <(command "${words[1]/#\~/$HOME}" complete "${(@Q)words[1,CURRENT]}" 2>/dev/null)
  (($#described)) && _describe 'ligerdsl' described
  (($#plain)) && compadd -- "${plain[@]}"
  (($#open)) && compadd -S '' -- "${open[@]}"
}
if [[ $funcstack[1] == _ligerdsl ]]; then
  _ligerdsl "$@"
else
  compdef _ligerdsl ligerdsl
fi
)";
}

}  // namespace ligerdsl::cli
