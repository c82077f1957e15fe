"""Run an experiment.

$ python -m runtime.bench experiment=qs
"""

import signal

from runtime.experiments.command import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end, as by Ctrl-C
    main()
