"""The console command: `edgenas search T=17ms` is `python -m nas.search T=17ms`.

As a console script it does not look into the user's folder first, so files there named like a package
of ours (`runtime.py`) break nothing.
"""

from __future__ import annotations

import sys

from edgenas_core.command.exit_status import one_line_errors, run_command
from edgenas_core.types.errors import UserError, did_you_mean

_MODULES = {
    "search": (
        "nas.search.command",
        "find the most accurate network that meets a time limit on a device",
    ),
    "study": ("nas.study.command", "compare rewards or searchers over devices, limits and seeds"),
    "train": ("nas.train.command", "train a network in full on your images"),
    "measure": (
        "nas.measure.command",
        "time networks on this machine or a board into a latency table",
    ),
    "transfer": ("nas.transfer", "predict a new device from a few networks timed on it"),
    "export": ("nas.export.command", "write a network as PyTorch, ONNX, scripts and a card"),
    "ui": ("nas.ui.command", "write a page over the runs of a folder"),
    "data": (
        "nas.data.command",
        "list, fetch, import and verify tables of accuracies and latencies",
    ),
    "map": ("edgenas_runtime.mapping.command", "find the time that is left on a busy board"),
}
"""Module of the `main` of each command, and its purpose."""

_BASH = """\
_edgenas() {
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "%(words)s" -- "${COMP_WORDS[1]}"))
    elif [[ ${COMP_WORDS[1]} == data ]]; then
        COMPREPLY=($(compgen -W "list fetch import verify" -- "${COMP_WORDS[COMP_CWORD]}"))
    elif [[ " %(hydra)s " == *" ${COMP_WORDS[1]} "* ]]; then
        local word="${COMP_LINE##* }"
        COMPREPLY=($(COMP_LINE="${COMP_LINE#* }" edgenas "${COMP_WORDS[1]}" -sc query=bash 2>/dev/null))
        # readline replaces what follows = and : only
        [[ $word == *[=:]* ]] && COMPREPLY=("${COMPREPLY[@]#"${word%%"${word##*[=:]}"}"}")
    fi
}
complete -o nospace -o default -F _edgenas edgenas
"""

_COMPLETIONS = {
    "bash": _BASH,
    "zsh": "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    + _BASH,
}


@one_line_errors()
def main() -> None:
    """Run one of the commands; status 2 if there is no such."""
    words = sys.argv[1:]
    first = words[0] if words else "--help"
    if first in _MODULES:
        run_command(_MODULES[first][0], words[1:])
    elif first == "--version":
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, and not always needed

        sys.stdout.write(f"edgenas {version('edgenas')}\n")
    elif first in {"--help", "-h", "help"}:
        sys.stdout.write(_help())
    elif first == "completion" and words[1:2] and words[1] in _COMPLETIONS:
        names = {"words": " ".join([*_MODULES, "completion", "--help", "--version"])}
        names["hydra"] = " ".join(name for name in _MODULES if name not in {"data", "ui"})
        sys.stdout.write(_COMPLETIONS[words[1]] % names)
    elif first == "completion":
        raise UserError(f"edgenas completion takes one of {', '.join(_COMPLETIONS)}")
    else:
        commands = [*_MODULES, "completion"]
        raise UserError(
            f"{first} is not one of {', '.join(commands)}{did_you_mean(first, commands)}"
        )


def _help() -> str:
    lines = [f"  {name:11}{purpose}" for name, (_, purpose) in _MODULES.items()]
    lines += [
        f"  {'completion':11}the completion of a shell: source <(edgenas completion bash), or zsh"
    ]
    return (
        "Find the most accurate network that meets a time limit on your device.\n\n"
        "  edgenas search T=17ms\n\n"
        "Commands (edgenas <command> --help):\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
