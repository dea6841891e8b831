"""Shell completion: what the shells and kubectl ask, and who answers.

The protocol is the one that kubectl speaks with its plugins: the words so far as arguments, the last one incomplete;
back come lines of `value<TAB>help` and at the end `:4` (only these) or `:0` (file names will do). Every shell's script
asks in the same way, so that there is one place to answer.
"""

import io
import os
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

ASK = "__complete"
"""Hidden command, with the words after it."""
_VARIABLE = "_RESOURCE_SLACK_COMPLETE"
_SECONDS = 1.5
"""How long a cluster may take to name its policies while somebody waits for a key."""
_ONLY_THESE, _FILES = ":4", ":0"


def policy_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of SlackPolicies that begin so; none when no cluster answers at once."""
    from slack.planner.crd import PLURAL
    from slack.planner.policy import API_VERSION

    return _names_in_cluster(ctx, incomplete, API_VERSION, PLURAL)


def namespace_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of namespaces that begin so; none when no cluster answers at once."""
    return _names_in_cluster(ctx, incomplete, "v1", "namespaces")


def node_names(ctx: Any, incomplete: str) -> list[str]:
    """Return names of nodes that begin so; none when no cluster answers at once."""
    return _names_in_cluster(ctx, incomplete, "v1", "nodes")


def _names_in_cluster(ctx: Any, incomplete: str, api_version: str, plural: str) -> list[str]:
    from slack.kube.errors import KubeError
    from slack.kube.kubeconfig import connect
    from slack.kube.paths import resource_path

    chosen = ctx.params.get("kubeconfig")
    try:
        connection = connect(Path(chosen) if chosen else None, ctx.params.get("context"))
    except KubeError:
        return []  # a key press is no place for complaints
    import json

    try:
        answer = connection.request("GET", resource_path(api_version, plural), query={"limit": 100}, timeout=_SECONDS)
    except KubeError:
        return []
    finally:
        connection.close()
    names = (str(one["metadata"]["name"]) for one in json.loads(answer).get("items") or ())
    return sorted(name for name in names if name.startswith(incomplete))


def answered(words: list[str]) -> str:
    """Return the answer to a shell: lines of candidates and the last line that says what else will do.

    Args:
        words: what was typed after the program's name, the last one incomplete, maybe ''.
    """
    from typer.completion import get_completion_inspect_parameters

    from slack.cli.commands import app

    get_completion_inspect_parameters()  # makes the library know its shells
    *whole, incomplete = words or [""]
    asked = shlex.join(["resource-slack", *whole]) + " " + (shlex.quote(incomplete) if incomplete else "")
    question = {_VARIABLE: "complete_fish", "_TYPER_COMPLETE_ARGS": asked, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    before = {name: os.environ.get(name) for name in question}
    os.environ |= question
    found = io.StringIO()
    try:
        with redirect_stdout(found), redirect_stderr(io.StringIO()), suppress(SystemExit):
            app(args=[], prog_name="resource-slack")
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    lines = [_short(line) for line in found.getvalue().splitlines() if line.strip()]
    return "\n".join([*lines, _ONLY_THESE if lines else _FILES]) + "\n"


def _short(line: str) -> str:
    """Keep a help text's first sentence: a list of candidates has one line each."""
    value, tab, text = line.partition("\t")
    first = text.split(". ")[0].strip().removesuffix(".")
    return f"{value}{tab}{first}" if first else value


def kubectl() -> None:
    """`kubectl_complete-slack`: kubectl looks for a program of this name and runs it with the words."""
    sys.stdout.write(answered(sys.argv[1:]))


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
