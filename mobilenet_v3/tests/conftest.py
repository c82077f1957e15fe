"""What the tests share with those of edgenas."""

import os

# A process a core runs the tests: threads that wait for each other cost tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings
from shared_fixtures import *  # noqa: F403 - fixtures are found by their names

settings.register_profile("edgenas", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("edgenas")
