"""Files that others wrote, damaged in any way: each reader reads them, or refuses them in one line.

Damage is random: bytes, numbers and names are replaced, pieces are cut out, doubled or swapped. Where a file
carries digests or is compressed, its content is damaged before these are made, so that the reader gets to it.
"""

from __future__ import annotations

import bz2
import dataclasses
import io
import json
import pickle
import re
import resource
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from searching import signed
from synthetic import problem

from benchmarks.papers.results import read_results
from common.files.keyed_table import latency_files, parse_csv_table
from common.types.errors import UserError
from common.types.kind import Kind
from controller.evolution import EvolutionConfig
from controller.local_search import LocalSearchConfig
from controller.model_based.guided import GuidedConfig
from controller.policy.reinforce import ReinforceConfig
from latency.measuring.journal import judged, measured_ms, read, repeat_differences, taken_beside
from latency.models.calibration import read_calibration
from latency.probe.cache import Cache, CacheError
from nas.accuracy.images.decode import UndecodableError, decode
from nas.accuracy.images.parquet import ParquetImages
from nas.accuracy.images.stored import stored
from nas.accuracy.training.trained_folder import read_training
from nas.report.summary import SCHEMA, Summary, read_summary
from nas.search.checkpoint import _digest as digest_of
from nas.search.checkpoint import load_checkpoint, save_checkpoint
from nas.search.journal import read_journal
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.public.nats_pickle import load_bz2
from nas.study.search_log import load_log
from nas.trials.choice_history import ChoiceHistory
from nas.trials.trial import State, Trials
from nas.ui.page import runs_page
from runtime.machine.timing import Statistic
from runtime.mapping.model.platform_description import read_platform
from runtime.mapping.model.timing_table import read_timing_table

PROBLEM = problem()
TOKENS = re.compile(rb'-?\d[\d.e+-]*|"[^"\n]*"|\b(?:true|false|null)\b')
STRANGE = (
    b"-1", b"0", b"1e999", b"-1e-320", b"NaN", b"99999999999999999999", b"9223372036854775807", b"null",
    b'"x"', b"[]", b"{}", b"[[1]]", b"true", b"", b"9" * 5000, b'"\\u0000\\n\\ud800"', b"[" * 2000, b"\xff",
)  # fmt: skip
MOST_BYTES = 2**31


@st.composite
def damaged(draw, content):
    """The content after one to three kinds of damage."""
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("token", "byte", "cut", "end", "double")))
        tokens = [*TOKENS.finditer(content)] if kind == "token" else []
        if tokens:
            at = draw(st.sampled_from(tokens))
            new = draw(st.sampled_from(STRANGE) | st.binary(max_size=4))
            content = content[: at.start()] + new + content[at.end() :]
            continue
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(1, 64)))
        if kind == "cut":
            content = content[:begin] + content[end:]
        elif kind == "end":
            content = content[:begin]
        elif kind == "double":
            content = content[:end] + content[begin:]
        else:
            content = (
                content[:begin] + draw(st.binary(min_size=1, max_size=4)) + content[begin + 1 :]
            )
    return content


@contextmanager
def bounded_memory():
    """Let a reader ask for two gigabytes more than the process has; beyond them is a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@dataclass(frozen=True)
class Reader:
    """A whole file, the function that reads it, and what this may raise for another content."""

    whole: bytes
    read: object
    refusals: tuple = (UserError,)
    pack: object = staticmethod(lambda content: content)
    """Writes a content in its container."""


READERS = {}


def reader(function):
    READERS[function.__name__] = function
    return function


def in_file(tmp_path, name, read):
    """A reader of paths as one of contents."""

    def of_content(content):
        (tmp_path / name).write_bytes(content)
        return read(tmp_path / name)

    return of_content


@reader
def latency_table(tmp_path):
    rows = "".join(f"{n},{SPACE.text(SPACE.architectures(np.array(n)))},{n}.5\n" for n in range(3))

    def read_all(path):
        latency_files(tmp_path, SPACE)
        return parse_csv_table(path, SPACE)

    return Reader(f"index,arch,board\n{rows}".encode(), in_file(tmp_path, "a_ms.csv", read_all))


@reader
def calibration_networks(tmp_path):
    rows = "".join(f"{SPACE.text(SPACE.architectures(np.array(n)))},{n + 1}.5\n" for n in range(5))
    return Reader(
        f"arch,latency_ms\n{rows}".encode(),
        in_file(tmp_path, "probes.csv", lambda path: read_calibration(path, SPACE)),
    )


@reader
def timing_table(tmp_path):
    text = b"network,configuration,min_ms,mean_ms,max_ms\na,x,1,2,3\na,y,,,\nb,x,0.5,0.5,0.75\n"
    return Reader(text, in_file(tmp_path, "t.csv", read_timing_table), (UserError, ValueError))


@reader
def platform(tmp_path):
    text = b'name: board\nunits: [a, "b", c]\nconfigurations:\n  wide: [[a, b]]\n  one: [[a], ["b"], [c]]\n'
    return Reader(text, in_file(tmp_path, "p.yaml", read_platform), (UserError, ValueError))


@reader
def journal(tmp_path):
    rows = SPACE.architectures(np.array([3, 7]))
    trials = PROBLEM.evaluate(rows[None]).replica(0)
    columns = [
        getattr(trials, name).tolist()
        for name in (
            "number", "architectures", "state", "accuracy", "accuracy_kind", "latency_ms", "latency_kind",
            "costs", "rewards", "fidelity", "seconds", "error",
        )
    ]  # fmt: skip
    text = json.dumps(["asked", 0, rows.tolist()]) + "\n" + json.dumps(["told", *columns])

    def read_all(path):
        answered = [one for one in read_journal(path, PROBLEM) if isinstance(one, Trials)]
        for one in answered:  # which a search goes on to use
            assert [State(value) for value in one.state.tolist()]
            assert [
                Kind(value) for value in (*one.accuracy_kind.tolist(), *one.latency_kind.tolist())
            ]

    def pack(content):
        lines = content.decode("latin-1").replace("\t", " ").splitlines()
        return signed(*lines).encode("latin-1")

    return Reader(text.encode(), in_file(tmp_path, "journal.jsonl", read_all), pack=pack)


@reader
def measured_times(tmp_path):
    names = (
        "arch,median_ms,p95_ms,p99_ms,median_low_ms,median_high_ms,warm_up_calls,is_stable,control_ms,"
        "clock_mhz,disturbances,samples_ms,beside_gb_per_s"
    )
    line = "a,1.5,2,2,1,2,10,1,3.5,2400,,1.4 1.5 1.6,1.2 3.4\n"

    def read_all(path):
        rows = judged(read(path), 0.05)
        for statistic in Statistic:
            measured_ms(rows, statistic)
            repeat_differences(rows, statistic)
        taken_beside(rows)

    return Reader(f"{names}\n{line}{line}".encode(), in_file(tmp_path, "x.journal.csv", read_all))


@reader
def probed_times(tmp_path):
    key = {"space": "small", "device": "board"}
    path = Cache(tmp_path, key, {}).path
    line = {
        "network": "a", "ms": [1.0, 2.0], "control_ms": [3.0], "warm_up_calls": 2, "is_stable": True,
        "state": {}, "board": "b",
    }  # fmt: skip

    def read_all(_path):
        for timed in Cache(tmp_path, key, {}).all():
            assert timed.control_median_ms > 0

    text = f"\n{json.dumps({'key': key})}\n\n{json.dumps(line)}\n"
    return Reader(text.encode(), in_file(tmp_path, path.name, read_all), (CacheError,))


@reader
def nats_pickles(tmp_path):
    whole = pickle.dumps({"meta": ["a", "b"], 777: {"x": [1.5, 2.5, (3, None)]}}, 4)
    return Reader(whole, in_file(tmp_path, "x.pickle.pbz2", load_bz2), pack=bz2.compress)


@reader
def parquet_images(tmp_path):
    file = io.BytesIO()
    pq.write_table(
        pa.table({"image": [b"a", b"bc"], "label": [0, 1], "split": ["train", "test"]}), file
    )

    def read_all(path):
        return [*ParquetImages(path).listing().encoded]

    return Reader(file.getvalue(), in_file(tmp_path, "i.parquet", read_all))


def image(kind):
    def of_kind(_tmp_path):
        file = io.BytesIO()
        Image.effect_noise((9, 7), 50).convert("RGB").save(file, kind)
        return Reader(file.getvalue(), lambda content: decode(content, 8), (UndecodableError,))

    return of_kind


READERS |= {
    f"image_{kind}": image(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
}


@reader
def decoded_images(tmp_path):
    about = {
        "name": "a", "title": "A", "classes": ["x", "y"], "side": 2, "counts": [1, 1, 1],
        "mean": [0.1, 0.2, 0.3], "sd": [0.1, 0.2, 0.3], "digest": "d", "report": [],
    }  # fmt: skip
    file = io.BytesIO()
    np.save(file, np.array([0, 1, 0]))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "pixels.bin").write_bytes(bytes(36))

    def build(_folder):
        raise UserError("built anew")

    def read_all(content):
        text, _, labels = content.partition(b"\0\0")
        folder.mkdir(exist_ok=True)
        (folder / "images.json").write_bytes(text)
        (folder / "labels.npy").write_bytes(labels)
        (folder / "pixels.bin").write_bytes(bytes(36))
        images = stored(folder, build)
        assert len(images.train) + len(images.valid) + len(images.test) == 3

    return Reader(json.dumps(about).encode() + b"\0\0" + file.getvalue(), read_all)


def example(kind):
    """Any value of a type of a dataclass's field, as JSON has it."""
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return {name: example(one) for name, one in get_type_hints(kind).items()}
    if type(None) in inner:
        return example(inner[0])
    if origin in {tuple, dict}:
        return [example(inner[0])] if origin is tuple else {"measured": example(inner[1])}
    return {str: "measured", int: 3, float: 1.5, bool: True}[kind]


@reader
def runs_of_a_folder(tmp_path):
    path = tmp_path / "2026-01-01" / "09-00-00-run" / "summary.json"
    path.parent.mkdir(parents=True)

    def read_all(content):
        path.write_bytes(content)
        with suppress(UserError):
            read_summary(path)
        runs_page(tmp_path).html().encode()

    whole = json.dumps({**example(Summary), "schema": SCHEMA}).encode()
    return Reader(whole, read_all)


@reader
def training_record(tmp_path):
    about = {
        "schema": 1, "state": "finished", "space": "s", "arch": "a", "data": "digits", "data_seed": 0,
        "data_name": "d", "data_title": "D", "data_digest": "x", "classes": ["0", "1"], "side": 8,
        "mean": [0.5], "sd": [0.25], "recipe": {"name": "r"}, "epochs": 1, "seed": 0, "trained_on": "train",
        "valid": {"fraction": 0.5, "images": 10}, "test": None, "seconds": 1.5, "device": "cpu", "versions": {},
    }  # fmt: skip
    return Reader(
        json.dumps(about).encode(),
        in_file(tmp_path, "training.json", lambda path: read_training(path.parent)),
    )


@reader
def results_of_experiments(tmp_path):
    about = {
        "schema": 1, "experiment": "qs", "machine": {}, "settings": {}, "rows": [{"ms": 1.5}], "faults": [],
        "controls": [], "not_measured": [], "cut_short": ["a"], "is_complete": True,
    }  # fmt: skip
    whole = json.dumps(about).encode()
    return Reader(whole, in_file(tmp_path, "qs.json", read_results), (UserError, ValueError))


def in_safetensors(content):
    """The container around a header, two zero bytes, and the tensors."""
    header, _, tensors = content.partition(b"\0\0")
    return len(header).to_bytes(8, "little") + header + tensors


def safetensors_of(tensors, metadata):
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    whole = save(tensors, metadata)
    length = int.from_bytes(whole[:8], "little")
    return whole[8 : 8 + length] + b"\0\0" + whole[8 + length :]


@reader
def training_checkpoint(tmp_path):
    import torch  # noqa: PLC0415 - most readers need none

    from nas.accuracy.training.checkpoint import load_checkpoint as load  # noqa: PLC0415 - imports torch
    from nas.accuracy.training.checkpoint import save_checkpoint as save  # noqa: PLC0415 - imports torch

    path = tmp_path / "checkpoint.safetensors"
    generator = torch.Generator()

    def state():
        return {
            "network.w": torch.zeros(2, 3),
            "step": torch.tensor(4),
            "random": generator.get_state(),
        }

    from nas.accuracy.training.checkpoint import Progress  # noqa: PLC0415 - imports torch

    identity = {"arch": "a", "seed": 1}
    save(path, state(), Progress((1.5,), (None,), 2.0), identity)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")

    def read_all(_path):
        load(path, state(), identity)

    return Reader(
        whole[8 : 8 + length] + b"\0\0" + whole[8 + length :],
        in_file(tmp_path, path.name, read_all),
        pack=in_safetensors,
    )


@reader
def weights(tmp_path):
    from common.types.task import Task  # noqa: PLC0415 - likewise
    from nas.export.network import with_weights  # noqa: PLC0415 - imports torch

    task = Task("tiny", 2, 8, 3, "Tiny")
    row = SPACE.architectures(np.array(0))
    network = SPACE.network(row, task)
    return Reader(
        safetensors_of(network.state_dict(), None),
        in_file(tmp_path, "weights.safetensors", lambda path: with_weights(SPACE, row, task, path)),
        pack=in_safetensors,
    )


FEW = 4
"""Examples of a quick run, always the same ones."""
EXAMPLES = [FEW, pytest.param(500, marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_file_is_read_or_refused(name, examples, tmp_path):
    one = READERS[name](tmp_path)
    one.read(one.pack(one.whole))

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(damaged(one.whole))
    def check(content):
        packed = one.pack(content)
        with bounded_memory(), suppress(*one.refusals):
            one.read(packed)

    check()


STRANGE_ARRAYS = (
    lambda array: array.reshape(-1)[:0],
    lambda array: array.reshape(-1)[:1],
    lambda array: np.stack([array, array]),
    lambda array: np.full(array.shape, np.nan),
    lambda array: np.full(array.shape, -1),
    lambda array: np.full(array.shape, 2**62),
    lambda array: np.full(array.shape, "x"),
    lambda array: np.full(array.shape, 1e308),
    lambda _array: np.array(7),
)


def checkpoint(config):
    """Arrays of a controller's checkpoint, and their reader."""

    def of_controller(path):
        controller = config.build(SPACE, [0])
        controller.learn(PROBLEM.evaluate(controller.sample(4)), PROBLEM.score)
        save_checkpoint(path, controller, ChoiceHistory(controller, SPACE.num_choices, 10), 2)
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files if name != "digest"}

        def read_all(changed):
            write_arrays(path, {**changed, "digest": np.array(digest_of(changed))})
            restored = config.build(SPACE, [0])
            load_checkpoint(path, restored, ChoiceHistory(restored, SPACE.num_choices, 10), 5)

        return arrays, read_all

    return of_controller


def search_log(path):
    arrays = {
        "space": np.array(SPACE.name), "seeds": np.arange(2), "index": np.zeros((2, 3), np.int64),
        "elapsed_s": np.ones(3),
    }  # fmt: skip

    def read_all(changed):
        write_arrays(path, changed)
        load_log(path, SPACE)

    return arrays, read_all


def write_arrays(path, arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)


SMALL = {
    "evolution": EvolutionConfig(batch_size=4, population_size=4, sample_size=2),
    "guided": GuidedConfig(batch_size=4, random=2, polish=1, anywhere=8, memory=20, front=False),
    "local_search": LocalSearchConfig(batch_size=4),
    "reinforce": ReinforceConfig(
        batch_size=4, lr=0.02, hidden_size=4, update_every=4, elite=2, neighbours=0.2, entropy_gain=2.0,
        horizon=100, converged_at=0.9,
    ),
}  # fmt: skip
ARRAYS = {"search_log": search_log, **{name: checkpoint(one) for name, one in SMALL.items()}}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_arrays_of_other_shapes_and_values_are_read_or_refused(name, examples, tmp_path):
    arrays, read_all = ARRAYS[name](tmp_path / "arrays.npz")
    read_all(arrays)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(st.sampled_from(sorted(arrays)), st.sampled_from(STRANGE_ARRAYS))
    def check(which, strange):
        with bounded_memory(), suppress(UserError):
            read_all({**arrays, which: strange(arrays[which])})

    check()
