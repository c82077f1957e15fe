"""The wheels of edgenas and of this package hold all that they need together."""

from __future__ import annotations

import os
from pathlib import Path

from wheels import install, python

RUNTIME = Path(__file__).parents[1]


def test_installed_wheels_map_stream_and_run_in_an_empty_folder(tmp_path):
    places = [install(RUNTIME.parent, tmp_path / "edgenas"), install(RUNTIME, tmp_path / "own")]
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}

    where = python(
        "-c", "import edgenas_runtime as r; print(r.__file__)", cwd=empty, env=environment
    )
    printed = python("-m", "edgenas", "map", "tasks=xavier", cwd=empty, env=environment)
    streamed = python(
        "-c",
        "import edgenas_runtime, torch\n"
        "layer = torch.nn.Linear(64, 64)\n"
        "with edgenas_runtime.stream(layer.eval(), budget='1MB') as small:\n"
        "    print(torch.equal(small(torch.ones(1, 64)), layer(torch.ones(1, 64))))\n",
        cwd=empty,
        env=environment,
    )

    assert where.startswith(str(places[1]))
    assert "Slack for one more network" in printed
    assert streamed == "True\n"
    assert {path.name.split("-")[0] for path in places[1].iterdir()} == {"edgenas_runtime"}
