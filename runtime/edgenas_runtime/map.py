"""The command `edgenas_runtime.map`: the time that is left on a board for one more network.

$ python -m edgenas_runtime.map tasks=tasks.csv platform=board.yaml
"""

from __future__ import annotations

from edgenas_core.command.exit_status import run_command

if __name__ == "__main__":
    run_command("edgenas_runtime.mapping.command")
