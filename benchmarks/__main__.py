"""Run an experiment.

$ python -m benchmarks experiment=qs
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    from common.command.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        from benchmarks.papers.command import main
    main()
