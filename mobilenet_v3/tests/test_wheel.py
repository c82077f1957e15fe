"""The wheels of edgenas and of this package hold all that they need together."""

from __future__ import annotations

import os
from pathlib import Path

from wheels import install, python

PROJECT = Path(__file__).parents[1]


def test_installed_wheels_search_in_an_empty_folder(tmp_path):
    places = [install(PROJECT.parent, tmp_path / "edgenas"), install(PROJECT, tmp_path / "own")]
    empty = tmp_path / "empty"
    empty.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "NAS_DATA"}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(map(str, places))}

    printed = python(
        "-c",
        "import edgenas_mobilenet_v3 as m\n"
        "from latency.sources.table import AutoLatencyConfig\n"
        "from nas.spaces.registry import space_named\n"
        "space = space_named('mobilenet_v3')\n"
        "task = space.tasks['imagenet']\n"
        "oracle = AutoLatencyConfig().build('titan-rtx/b64', space, task)\n"
        "print(m.__file__, float(oracle.answer(space.control()[None]).ms[0]) > 0)\n",
        cwd=empty,
        env=environment,
    )

    assert printed.startswith(str(places[1]))
    assert printed.endswith("True\n")
    assert {path.name.split("-")[0] for path in places[1].iterdir()} == {"edgenas_mobilenet_v3"}
