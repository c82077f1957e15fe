"""An hour of everything in one process: whatever grows from round to round is a leak.

python -m benchmarks.soak_everything [--minutes 60]

A round is a search and a study on predicted tables, a search that is killed and resumed, a study whose
workers are left behind by a killed parent, a search on a board (in turns a sound one, one that reboots, one
that lies, a slow one: `soak_board.py`), a short training on digits, a network whose weights are streamed, and
five seconds of requests on all lanes (`soak.py`). After each round are counted: resident memory, threads,
open files, child processes, temporary files, and processes of the soak that belong to nobody.

A board with a fault may be refused, by an error of the user; everything else must work, and give in each
round what it gave in the first. Exit status 1 if anything else happens, or if anything grows.
"""

import argparse
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import torch

import edgenas
import runtime
from benchmarks.soak import MOST_GROWTH_MB, soak
from runtime.network.models.vgg import VGG

HERE = Path(__file__).parent
FEWEST = 4
FAULTS = ("sound", "reboots", "lies", "slow")
ARCH = "|skip_connect~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|skip_connect~2|"
QUICK = {"samples": 3, "turn": 3, "warm_up_window": 1, "warm_up_most": 2}


@dataclass(frozen=True)
class Held:
    """Resources of the process after a round: memory in MB, and counts of the others."""

    resident_mb: float
    threads: int
    files: int
    children: int
    temporary_files: int
    orphans: int
    """Processes that were started in the soak's folder, and whose parent has ended."""


def held(folder):
    gc.collect()
    me = psutil.Process()
    return Held(
        me.memory_info().rss / 2**20,
        me.num_threads(),
        me.num_fds(),
        len(me.children(recursive=True)),
        sum(path.is_file() for path in folder.rglob("*")),
        len(orphans(folder)),
    )


def orphans(folder):
    mine = {os.getpid(), *(one.pid for one in psutil.Process().children(recursive=True))}
    return [
        one
        for one in psutil.process_iter(["environ"])
        if one.pid not in mine and str(folder) in (one.info["environ"] or {}).get("TMPDIR", "")
    ]


def searched(folder, _number):
    found = edgenas.search(T="17ms", budget=600, seed=1, runs=folder / "search", quiet=True)
    return found.best.arch, found.trials.num_rows


def studied(folder, _number):
    settings = {"seeds": 2, "budget": 200, "workers": 2, "rewards": ["proposed", "constrained"]}
    found = edgenas.study(limits=["17ms"], folder=folder / "study", quiet=True, **settings)
    return [result["key"] for result in found.results["settings"]]


def killed(folder, number):
    """A search that is killed somewhere, and then resumed, has the samples of a whole one."""
    runs = folder / "killed"
    words = ["T=17ms", "budget=3000", "seed=2", f"runs={runs}"]
    begun = subprocess.Popen(
        [sys.executable, "-m", "nas.search", *words], stdout=subprocess.DEVNULL
    )
    wait_for(lambda: [*runs.rglob("journal.jsonl")] or begun.poll() is not None)
    time.sleep(np.random.default_rng(number).uniform(0, 1))
    begun.kill()
    begun.wait()
    (run,) = (path.parent for path in runs.rglob("config.yaml"))
    if not (run / "summary.json").exists():
        edgenas.search(resume=run, quiet=True)
    left = [path.name for path in run.rglob("*.tmp")]
    return edgenas.Found(run).best.arch, left


def deserted(folder, _number):
    """Workers of a study end with it, even if it was killed."""
    words = ["seeds=2", "budget=100000", "workers=2", "limits=[17ms,19ms]"]
    begun = subprocess.Popen(
        [sys.executable, "-m", "nas.study", *words, f"folder={folder / 'deserted'}"],
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(psutil.Process(begun.pid).children()) > 1 or begun.poll() is not None)
    begun.kill()
    begun.wait()
    wait_for(lambda: not orphans(folder.parent))
    return [" ".join(orphan.cmdline()) for orphan in orphans(folder.parent)]


def probed(folder, number):
    """A search on a board, each round with another fault: its outcome."""
    fault = FAULTS[number % len(FAULTS)]
    command = f"{sys.executable} {HERE / 'soak_board.py'} {fault} {number}"
    settings = {
        "latency.python": sys.executable, "latency.cache": folder / "cache",
        "latency.runtime": "onnxruntime", "latency.tries": 3, "latency.backoff_s": 0.1,
        "latency.silence_s": 30, "latency.on_disturbance": "flag", "latency.confirm_top": 1,
        "controller.batch_size": 2, **{f"latency.timing.{name}": one for name, one in QUICK.items()},
    }  # fmt: skip
    try:
        found = edgenas.search(
            T="500ms", device=f"cmd://{command}", latency="probe", controller="uniform", budget=2,
            seed=number, runs=folder / "probed", settings=settings, quiet=True,
        )  # fmt: skip
    except edgenas.UserError:
        if fault in {"sound", "slow"}:
            raise
        return f"{fault} refused"
    return f"{fault} answered {found.trials.num_rows}"


def trained(folder, _number):
    weights = edgenas.train(
        arch=ARCH,
        data="digits",
        epochs=1,
        runs=folder / "trained",
        settings={"side": 8},
        quiet=True,
    )
    return sorted(
        path.name for path in weights.iterdir() if path.suffix in {".json", ".safetensors"}
    )


def streamed(_folder, number):
    torch.manual_seed(0)
    model, x = VGG(16, width=8, num_classes=10).eval(), torch.randn(1, 3, 32, 32)
    with (
        torch.no_grad(),
        runtime.stream(model, x, budget="7MB", tier=("ssd", "host")[number % 2]) as small,
    ):
        return all(torch.equal(small(x * i), model(x * i)) for i in range(1, 6))


def served(_folder, _number):
    return [fault for one in soak(5) for fault in one.wrong]


PARTS = {
    "search": searched, "study": studied, "killed": killed, "deserted": deserted,
    "board": probed, "training": trained, "streaming": streamed, "lanes": served,
}  # fmt: skip


def wait_for(condition, seconds=60):
    """Whether the condition became true in that time."""
    end_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def growth(rounds):
    """Growth of each resource: its median in the last quarter of the rounds less that in the second."""
    quarter = len(rounds) // 4
    columns = [*zip(*map(astuple, rounds), strict=True)]
    return Held(
        *(median(column[-quarter:]) - median(column[quarter : 2 * quarter]) for column in columns)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    end_s = time.monotonic() + 60 * parser.parse_args().minutes
    folder = Path(tempfile.mkdtemp(prefix="edgenas-soak-"))
    work = folder / "work"
    os.environ |= {
        "TMPDIR": str(folder),
        "XDG_CACHE_HOME": tempfile.mkdtemp(prefix="edgenas-cache-"),
    }
    tempfile.tempdir = None
    torch.set_num_threads(1)
    first, outcomes, faults, rounds, total = {}, Counter(), [], [], 0
    while time.monotonic() < end_s:
        took_s = {}
        for name, part in PARTS.items():
            began_s = time.monotonic()
            try:
                got = part(work, len(rounds))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and the soak goes on
                faults.append(f"{name}: {error!r}")
                continue
            finally:
                took_s[name] = time.monotonic() - began_s
            outcomes[got if part is probed else name] += 1
            if part is not probed and got != first.setdefault(name, got):
                faults.append(f"{name} gave {got}, not {first[name]}")
        shutil.rmtree(work)
        rounds.append(held(folder))
        now = ", ".join(
            f"{getattr(rounds[-1], field.name):.6g} {field.name}" for field in fields(Held)
        )
        seconds = ", ".join(f"{name} {one:.1f} s" for name, one in took_s.items())
        print(f"{len(rounds):4}: {now}", seconds, *faults, sep="\n      ", flush=True)
        total, faults = total + len(faults), []
    if len(rounds) < FEWEST:
        print(f"{len(rounds)} rounds, {total} faults; growth is told after {FEWEST} rounds")
        return int(total > 0)
    grown = growth(rounds)
    print(f"{len(rounds)} rounds, {total} faults; grown by {grown}")
    print(", ".join(f"{name}: {count}" for name, count in sorted(outcomes.items())))
    shutil.rmtree(folder)
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    leaks = astuple(grown)
    return int(total > 0 or leaks[0] > MOST_GROWTH_MB or any(leak > 0 for leak in leaks[1:]))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
