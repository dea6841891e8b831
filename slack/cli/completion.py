"""`completion`: prints what a shell, or kubectl, needs to complete commands, flags and names of policies."""

from enum import StrEnum
from typing import Annotated

import typer


class For(StrEnum):
    """Who is to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def completion(
    shell: Annotated[For, typer.Argument(help="Who is to complete.", show_default=False)],
) -> None:
    """Print a script that completes commands, flags, values and names of policies.

    kubectl looks for a program kubectl_complete-slack on the PATH; the package installs one, and `completion kubectl`
    prints one for other ways of installing.

    [bold]Examples[/bold]

        source <(resource-slack completion bash)

        resource-slack completion zsh > "${fpath[1]}/_resource-slack"

        resource-slack completion fish > ~/.config/fish/completions/resource-slack.fish

        resource-slack completion kubectl > ~/bin/kubectl_complete-slack; chmod +x ~/bin/kubectl_complete-slack
    """
    typer.echo(SCRIPTS[shell.value], nl=False)


BASH = """\
# bash completion of resource-slack and kubectl-slack. Written by: resource-slack completion bash
_resource_slack() {
  local line values=() directive=":0"
  while IFS= read -r line; do
    case "$line" in
      :*) directive=$line ;;
      *) values+=("${line%%$'\\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  for line in "${values[@]}"; do
    [[ $line == "${COMP_WORDS[COMP_CWORD]}"* ]] && COMPREPLY+=("$(printf '%q' "$line")")
  done
  if [[ $directive == ":0" ]] && ((${#COMPREPLY[@]} == 0)); then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}
complete -F _resource_slack resource-slack kubectl-slack
"""

ZSH = """\
#compdef resource-slack kubectl-slack
# zsh completion of resource-slack and kubectl-slack. Written by: resource-slack completion zsh
_resource_slack() {
  local line directive=":0"
  local -a values
  while IFS= read -r line; do
    case "$line" in
      :*) directive=$line ;;
      *) values+=("${${line%%$'\\t'*}//:/\\\\:}:${${line#*$'\\t'}//:/\\\\:}") ;;
    esac
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#values} )); then
    _describe 'resource-slack' values
  elif [[ $directive == ":0" ]]; then
    _files
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _resource_slack "$@"
else
  compdef _resource_slack resource-slack kubectl-slack
fi
"""

FISH = """\
# fish completion of resource-slack and kubectl-slack. Written by: resource-slack completion fish
function __resource_slack_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] __complete $words[2..-1] 2>/dev/null | string match -v ':*'
end
complete -c resource-slack -a '(__resource_slack_complete)'
complete -c kubectl-slack -a '(__resource_slack_complete)'
"""

KUBECTL = """\
#!/bin/sh
# kubectl asks this program what may follow `kubectl slack`. Written by: resource-slack completion kubectl
exec kubectl-slack __complete "$@"
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH, "kubectl": KUBECTL}
