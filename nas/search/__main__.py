"""`python -m nas.search reward=proposed T=17ms`."""

from __future__ import annotations

if __name__ == "__main__":
    from common.command.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        from nas.search.command import main
    main()
