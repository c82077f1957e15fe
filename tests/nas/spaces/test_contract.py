"""What every search space promises, of those of the package and of a third party."""

import pytest
from spaces_contract import *  # noqa: F403 - its tests

from nas.fit.starts.pretrained.pool import pool_of
from nas.fit.starts.pretrained.space import PretrainedSpace
from nas.spaces.base import task_named
from nas.spaces.registry import SPACES, space_named
from nas.spaces.residual import SPACE as RESIDUAL


@pytest.fixture(params=[*SPACES, "toy_space", "tiny_space"], scope="module")
def space(request):
    if request.param == "elastic":  # made of a user's network
        pytest.importorskip("torch_pruning")
        from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

        row = RESIDUAL.parse("stride=2 kernel=3 width=16 growth=2.0 blocks=4 kind=residual")
        return elastic_space(RESIDUAL.network(row, task_named(RESIDUAL, "auto")), side=32)
    if request.param == "pretrained":  # of the first of 37: each is built at each of five sides
        return PretrainedSpace("pretrained", pool_of("")[:4])
    return space_named(request.param)
