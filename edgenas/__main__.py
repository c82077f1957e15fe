"""The console command: `edgenas search T=17ms` is `python -m nas.search T=17ms`.

Packages add commands of theirs by entry points of the group `edgenas.commands`, such as `edgenas map`.
"""

from __future__ import annotations

import sys

from edgenas_core.command.exit_status import one_line_errors, run_command
from edgenas_core.command.plug_ins import COMMANDS, Command, in_group, missing_extra, optional
from edgenas_core.types.errors import UserError, not_one_of

_COMMANDS = {
    "search": Command(
        "nas.search.command",
        "find the most accurate architecture that meets a time limit on a device",
    ),
    "fit": Command(
        "nas.fit.command", "train the most accurate network within a time limit on your own data"
    ),
    "study": Command(
        "nas.study.command", "compare rewards or searchers over devices, limits and seeds"
    ),
    "train": Command("nas.train.command", "train a network in full on your images"),
    "measure": Command(
        "nas.measure.command", "time networks on this machine or a board into a latency table"
    ),
    "transfer": Command("nas.transfer", "predict a new device from a few networks timed on it"),
    "export": Command("nas.export.command", "write a network as PyTorch, ONNX, scripts and a card"),
    "check": Command("nas.check.command", "compare two network files on the same photos"),
    "figures": Command(
        "nas.figures.command", "write the charts of a run or study as SVG and PDF, for a paper"
    ),
    "ui": Command("nas.ui.command", "write a page over the runs of a folder"),
    "data": Command(
        "nas.data.command", "list, fetch, import and verify tables of accuracies and latencies"
    ),
}
"""The package's own commands by name; other packages add theirs as plug-ins."""

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
    if first in _COMMANDS:  # without the plug-ins, whose names take time to read
        run_command(_COMMANDS[first].module, words[1:])
    elif first == "--version":
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, and not always needed

        sys.stdout.write(f"edgenas {version('edgenas')}\n")
    elif first in {"--help", "-h", "help"}:
        sys.stdout.write(_help())
    elif first == "completion" and words[1:2] and words[1] in _COMPLETIONS:
        commands = [*_COMMANDS, *in_group(COMMANDS)]
        names = {"words": " ".join([*commands, "completion", "--help", "--version"])}
        names["hydra"] = " ".join(name for name in commands if name not in {"check", "data", "ui"})
        sys.stdout.write(_COMPLETIONS[words[1]] % names)
    elif first == "completion":
        raise UserError(f"edgenas completion takes one of {', '.join(_COMPLETIONS)}")
    elif first in in_group(COMMANDS) or missing_extra(COMMANDS, first, "") is not None:
        command: Command = optional(COMMANDS, first, f"edgenas {first}")
        run_command(command.module, words[1:])
    else:
        commands = [*_COMMANDS, *in_group(COMMANDS), "completion"]
        raise not_one_of("command", first, commands)


def _help() -> str:
    added = {name: optional(COMMANDS, name, f"edgenas {name}") for name in in_group(COMMANDS)}
    lines = [f"  {name:11}{command.purpose}" for name, command in (_COMMANDS | added).items()]
    lines += [
        f"  {'completion':11}the completion of a shell: source <(edgenas completion bash), or zsh"
    ]
    return (
        "Find the most accurate network that meets a time limit on your device.\n\n"
        "  edgenas search T=17ms\n  edgenas fit data=photos/ T=8ms\n\n"
        "Commands (edgenas <command> --help; with --json each prints its result as one JSON document):\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    main()
