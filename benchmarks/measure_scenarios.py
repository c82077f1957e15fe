"""One board in several scenarios within so many minutes: the same networks in each, journals that go on.

    $ python -m benchmarks.measure_scenarios 8 out=measurements board=epyc-vm backend=torch \
          networks=160 repeats=40 together=8 on_disturbance=flag \
          alone hog hog_held beside_nb201 small_memory
    $ python -m benchmarks.fitting.nas_bench_201.bundle measurements/epyc-vm-*_ms.json

The first word is the minutes of all together; words with `=` are given to every `python -m nas.measure`;
the others are scenarios, `alone` for none. Each gets an equal share of the minutes that are left, so
what one does not use the next one has. What is disturbed, or does not fit, is measured in a second turn
if minutes are left, or by the same command again. `archive=FILE.tgz` packs the folder after every
scenario, for machines that are taken away.

The second line puts the tables into the package: it reads the journals, leaves out what was disturbed and
where boards are, and writes `latency/measured/`. Name no origin whose table in the package has more cells,
such as one of a board alone that was measured again to know the noise.

Recorded 2026-11-21, one NVIDIA H200, captured graphs, 100 samples, twenty networks together, in 6.6
minutes (nas/spaces/nas_bench_201/measured/README.md has the command): 360 measurements alone and in each of three
scenarios in 50 to 75 seconds, 180 beside the unlimited hog in 140.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from pathlib import Path

START_S = 4.0
"""Of a command before it measures and after it has: imports, tables."""
LEAST_S = 10.0


def main() -> None:
    minutes, *words = sys.argv[1:]
    until_s = time.monotonic() + 60 * float(minutes)
    given = dict(word.split("=", 1) for word in words if "=" in word)
    archive = given.pop("archive", None)
    scenarios = [word for word in words if "=" not in word]
    for _ in range(2):
        for place, scenario in enumerate(scenarios):
            share_s = (until_s - time.monotonic()) / (len(scenarios) - place) - START_S
            if share_s < LEAST_S:
                continue
            measure(scenario, given, share_s)
            if archive is not None:
                pack(Path(given["out"]), Path(archive))


def measure(scenario: str, given: dict[str, str], share_s: float) -> None:
    settings = {**given, "minutes": f"{share_s / 60:.3f}"}
    if scenario != "alone":
        settings["scenario"] = scenario
    began_s = time.monotonic()
    words = [f"{name}={value}" for name, value in settings.items()]
    status = subprocess.run([sys.executable, "-m", "nas.measure", *words], check=False).returncode
    taken_s = time.monotonic() - began_s
    print(f"-- {scenario}: {taken_s:.0f} s of {share_s:.0f}, status {status}", flush=True)


def pack(folder: Path, archive: Path) -> None:
    new = archive.with_suffix(".new")
    with tarfile.open(new, "w:gz") as file:
        file.add(folder, arcname=folder.name)
    new.replace(archive)


if __name__ == "__main__":
    main()
