"""Which network for which board: the most accurate of a run's trials, by board and RAM.

    $ python -m benchmarks.which_board RUN 100ms [classes]

RUN is the folder of a finished fit or search. Accuracies are those of its trials, each at its longest training; times are
predicted from published rows of other networks, RAM is computed. Prints the table of benchmarks/results/which-board.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

import nas.config.build  # noqa: F401 - registers spaces
from edgenas_core.types.units import milliseconds
from latency.models.microcontrollers import chips
from nas.report.run_folder import RunFolder
from nas.spaces.registry import space_named

RAM_KB = (64, 128, 256, 512, 1024)
BOARDS = (
    "stm32n6/npu/int8", "stm32h747/cubeai/int8", "ek-ra8d1/tflite-micro/int8", "nucleo-h7a3zi-q/x-cube-ai/int8",
    "esp32-s3/esp-dl/int8", "esp32-s3/esp-nn/int8", "b-u585i-iot02a/plumerai/int8", "nucleo-l4r5zi/x-cube-ai/int8",
    "nucleo-l4r5zi/tflite-micro/int8", "nucleo-g0b1re/bosch/int8",
)  # fmt: skip


def finished(run):
    """The last trial of each architecture, by its text."""
    rows = {}
    for row in pq.read_table(RunFolder(run).samples).to_pylist():
        is_known = row["state"] == "done" and row["accuracy"] == row["accuracy"]  # not NaN
        if is_known and row["fidelity"] >= rows.get(row["arch"], row)["fidelity"]:
            rows[row["arch"]] = row
    return rows


def main():
    """Print the table."""
    run, limit, *classes = sys.argv[1:]
    limit_ms = milliseconds(limit)
    space = space_named(RunFolder(Path(run)).finished_summary().settings.space)
    task = space.tasks[space.default_task]
    if classes:
        task = replace(task, num_classes=int(classes[0]))
    networks, chance = [], 1.5 / task.num_classes
    for arch, row in finished(Path(run)).items():
        if row["accuracy"] < chance:
            continue  # a network whose output does not depend on its input
        architecture = space.parse(arch)
        ram_kb = space.memories(architecture[None], task)[0, 0] / 1e3
        networks.append((row["accuracy"], arch, ram_kb, space.micro_work(architecture, task, 1e9)))
    networks.sort(key=lambda each: -each[0])
    print(f"{len(networks)} networks; each cell: accuracy, predicted ms, number of the network\n")
    print("| board | " + " | ".join(f"{kb} kB" for kb in RAM_KB) + " |")
    print("|---" * (1 + len(RAM_KB)) + "|")
    named = {}
    for board in BOARDS:
        cells = []
        for kb in RAM_KB:
            fits = (
                (accuracy, arch, ms)
                for accuracy, arch, ram_kb, work in networks
                if ram_kb <= kb and (ms := chips()[board].predict_ms(work)) <= limit_ms
            )
            best = next(fits, None)
            cells.append("none" if best is None else f"{best[0]:.1%}, ~{best[2]:.3g}, {named.setdefault(best[1], len(named) + 1)}")  # fmt: skip
        scaled = chips()[board].scaled_from
        print(f"| {board}{' (scaled)' * bool(scaled)} | {' | '.join(cells)} |")
    print("\n" + "\n".join(f"{number}. {arch}" for arch, number in named.items()))


if __name__ == "__main__":
    main()
