# Tab completion of `relpos` in bash. Once:  eval "$(relpos --completion)"   (or put that line into ~/.bashrc)
# The first word is completed from `relpos --help`, the others by Hydra, which answers per subcommand in about half a second.

_relpos() {
  local line=${COMP_LINE:0:${COMP_POINT:-${#COMP_LINE}}}
  local words
  read -ra words <<<"$line"
  local current=${words[-1]}
  [[ $line == *[[:space:]] ]] && current=""

  local answers
  if ((${#words[@]} == 1)) || { ((${#words[@]} == 2)) && [[ -n $current ]]; }; then
    answers=$("${words[0]}" --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')
  else
    answers=$(COMP_LINE="relpos ${line#*"${words[1]}" }" "${words[0]}" "${words[1]}" -sc query=bash 2>/dev/null)
  fi
  mapfile -t COMPREPLY < <(compgen -W "$answers" -- "$current")
  # A group or a key goes on after `=` or `.`: no space behind those.
  [[ ${COMPREPLY[0]} == *[=./] ]] && compopt -o nospace 2>/dev/null
  return 0
}

COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}
complete -F _relpos relpos
