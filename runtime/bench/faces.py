"""What each experiment shows, by its name."""

from __future__ import annotations

from runtime.bench.contention_figures import contention_figures, contention_key_figures
from runtime.bench.contention_shown import contention_tables
from runtime.bench.coschedule_shown import COSCHEDULE
from runtime.bench.decompose_shown import DECOMPOSE
from runtime.bench.face import Face
from runtime.bench.memory_figures import memory_figures, memory_key_figures
from runtime.bench.memory_tables import memory_simulated, memory_tables
from runtime.bench.optimum_shown import OPTIMUM
from runtime.bench.predictor_shown import PREDICTOR
from runtime.bench.qs_shown import QS
from runtime.bench.results import Results
from runtime.bench.simulator_shown import SIMULATOR
from runtime.bench.stream_shown import STREAM
from runtime.mapping.run_shown import MAPPED

_FACES = {
    "qs": QS,
    "coschedule": COSCHEDULE,
    "decompose": DECOMPOSE,
    "simulator": SIMULATOR,
    "optimum": OPTIMUM,
    "contention": Face(
        "Networks beside hogs of bandwidth",
        contention_tables,
        contention_figures,
        contention_key_figures,
    ),
    "memory": Face(
        "Where memory lives that CPU and GPU share",
        memory_tables,
        memory_figures,
        memory_key_figures,
        simulated=memory_simulated,
    ),
    "predictor": PREDICTOR,
    "stream": STREAM,
    "mapped": MAPPED,
}


def face_of(results: Results) -> Face:
    """Of the experiment that found them.

    Raises:
      ValueError: if there is no such experiment.
    """
    face = _FACES.get(results.experiment)
    if face is None:
        raise ValueError(f"experiment={results.experiment} must be one of {', '.join(_FACES)}")
    return face
