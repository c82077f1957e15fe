"""Run an experiment.

$ python -m runtime.bench experiment=qs
"""

from runtime.bench.command import main

if __name__ == "__main__":
    main()
