"""What each experiment shows, by its name."""

from __future__ import annotations

from runtime.experiments.contention.figures import contention_figures, contention_key_figures
from runtime.experiments.contention.show import contention_tables
from runtime.experiments.dispatch.qs_shown import QS
from runtime.experiments.layers.predictor_shown import PREDICTOR
from runtime.experiments.placement.experiment.figures import memory_figures, memory_key_figures
from runtime.experiments.placement.experiment.tables import memory_simulated, memory_tables
from runtime.experiments.scheduling.coschedule_shown import COSCHEDULE
from runtime.experiments.scheduling.decompose_shown import DECOMPOSE
from runtime.experiments.scheduling.optimum_shown import OPTIMUM
from runtime.experiments.scheduling.simulator_shown import SIMULATOR
from runtime.experiments.streaming.show import STREAM
from runtime.mapping.running.view import MAPPED
from runtime.page.results import Results
from runtime.page.view import Face

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
