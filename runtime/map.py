"""The command `runtime.map`: the time that is left on a board for one more network.

$ python -m runtime.map tasks=tasks.csv platform=board.yaml
"""

from __future__ import annotations

if __name__ == "__main__":
    from common.command.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        from runtime.mapping.command import main
    main()
