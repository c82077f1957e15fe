"""What every search space promises, of this one."""

import pytest
from spaces_contract import *  # noqa: F403 - its tests

from edgenas_mobilenet_v3.plugin import SPACE


@pytest.fixture(scope="module")
def space():
    return SPACE
