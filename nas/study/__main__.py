"""`python -m nas.study experiment=smoke`."""

from __future__ import annotations

if __name__ == "__main__":
    from common.command.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        from nas.study.command import main
    main()
