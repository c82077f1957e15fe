"""Run an experiment.

$ python -m runtime.bench experiment=qs
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    from runtime.shell.exit_status import one_line_errors

    with one_line_errors():  # Ctrl-C while the rest is imported
        from runtime.experiments.command import main
    main()
