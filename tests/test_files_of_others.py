"""Files that others wrote, damaged in any way: each reader reads them, or refuses them in one line.

Damage is random: bytes, numbers and names are replaced, pieces are cut out, doubled or swapped. Where a file
carries digests or is compressed, its content is damaged before these are made, so that the reader gets to it.
"""

from __future__ import annotations

import bz2
import dataclasses
import io
import json
import os
import pickle
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args, get_origin, get_type_hints

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from searching import signed
from strange_input import bounded_memory, damaged
from synthetic import problem

from edgenas_core.files.keyed_table import latency_files, parse_csv_table
from edgenas_core.files.safe_yaml import load_settings
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.measuring.journal import judged, measured_ms, read, repeat_differences, taken_beside
from latency.models.calibration import read_calibration
from nas.fit.data.decode import UndecodableError, decode
from nas.fit.data.parquet import ParquetImages
from nas.fit.training.trained_folder import read_training
from nas.report.summary import SCHEMA, Summary, read_summary
from nas.runs.journal import read_journal
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.public.archive import load_bz2
from nas.study.search_log import load_log
from nas.trials.trial import State, Trials
from nas.ui.page import runs_page

PROBLEM = problem()


@dataclass(frozen=True)
class Foreign:
    """A whole file, the function that reads its path, and what this may raise for another content."""

    name: str
    whole: bytes
    read: object
    refusals: tuple = (UserError,)
    pack: object = staticmethod(lambda content: content)
    """Writes a content in its container."""


def rows_of(count):
    return [SPACE.text(row) for row in SPACE.architectures(np.arange(count))]


def latency_table():
    def read_all(path):
        latency_files(path.parent, SPACE)
        return parse_csv_table(path, SPACE)

    lines = [f"{n},{arch},{n}.5\n" for n, arch in enumerate(rows_of(3))]
    return Foreign("a_ms.csv", "".join(["index,arch,board\n", *lines]).encode(), read_all)


def calibration_networks():
    lines = [f"{arch},{n + 1}.5\n" for n, arch in enumerate(rows_of(5))]
    text = "".join(["arch,latency_ms\n", *lines])
    return Foreign("probes.csv", text.encode(), lambda path: read_calibration(path, SPACE))


def stored_settings():
    text = b"command: python\nchoices: {reward: mnasnet}\nvalues: {T: 17ms, seed: 1, reward: {w: -0.1}}\n"
    return Foreign("config.yaml", text, load_settings)


def journal():
    rows = SPACE.architectures(np.array([3, 7]))
    trials = PROBLEM.evaluate(rows[None]).replica(0)
    names = (
        "number", "architectures", "state", "accuracy", "accuracy_kind", "latency_ms", "latency_kind",
        "costs", "rewards", "fidelity", "seconds", "error",
    )  # fmt: skip
    columns = [getattr(trials, name).tolist() for name in names]
    text = json.dumps(["asked", 0, rows.tolist()]) + "\n" + json.dumps(["told", *columns])

    def read_all(path):
        for trials in (part for part in read_journal(path, PROBLEM) if isinstance(part, Trials)):
            assert [
                State(value) for value in trials.state.tolist()
            ]  # which a search goes on to use
            assert [Kind(value) for value in trials.accuracy_kind.tolist()]
            assert [Kind(value) for value in trials.latency_kind.tolist()]

    def pack(content):
        lines = content.decode("latin-1").replace("\t", " ").splitlines()
        return signed(*lines).encode("latin-1")

    return Foreign("journal.jsonl", text.encode(), read_all, pack=pack)


def measured_times():
    names = (
        "arch,warm_up_calls,is_stable,control_ms,clock_mhz,disturbances,samples_ms,beside_gb_per_s"
    )
    line = "a,10,1,3.5,2400,,1.4 1.5 1.6,1.2 3.4\n"

    def read_all(path):
        rows = judged(read(path), 0.05)
        for statistic in Statistic:
            measured_ms(rows, statistic)
            repeat_differences(rows, statistic)
        taken_beside(rows)

    return Foreign("x.journal.csv", f"{names}\n{line}{line}".encode(), read_all)


def nats_pickles():
    whole = pickle.dumps({"meta": ["a", "b"], 777: {"x": [1.5, 2.5, (3, None)]}}, 4)
    return Foreign("x.pickle.pbz2", whole, load_bz2, pack=bz2.compress)


def parquet_images():
    file = io.BytesIO()
    columns = {"image": [b"a", b"bc"], "label": [0, 1], "split": ["train", "test"]}
    pq.write_table(pa.table(columns), file)
    read_all = lambda path: [*ParquetImages(path).listing().encoded]  # noqa: E731 - short
    return Foreign("i.parquet", file.getvalue(), read_all)


def image(kind):
    file, picture = io.BytesIO(), Image.effect_noise((70, 50), 50).convert("RGB")
    picture.save(
        file, kind, **({"save_all": True, "append_images": [picture]} if kind == "MPO" else {})
    )

    def read_all(path):
        decode(path.read_bytes(), 8)

    return Foreign(f"i.{kind}", file.getvalue(), read_all, (UndecodableError,))


def onnx_network():
    shape = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "ab"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["a"], ["b"])], "g", shape[:1], shape[1:]
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=opset)
    return Foreign("n.onnx", model.SerializeToString(), OnnxSession, (ValueError,))


def value_of(kind):
    """Any value of a type of a dataclass's field, as JSON has it."""
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return {name: value_of(field) for name, field in get_type_hints(kind).items()}
    if type(None) in inner:
        return value_of(inner[0])
    if origin in {tuple, dict}:
        values = [value_of(item) for item in inner if item is not Ellipsis]
        return values if origin is tuple else {"measured": values[1]}
    return {str: "measured", int: 3, float: 1.5, bool: True}[kind]


def summary():
    def read_all(path):
        with suppress(UserError):
            read_summary(path)
        runs_page(path.parents[2]).html().encode()

    whole = json.dumps({**value_of(Summary), "schema": SCHEMA}).encode()
    return Foreign("2026-01-01/09-00-00-run/summary.json", whole, read_all)


def training_record():
    about = {
        "schema": 1, "state": "finished", "space": "s", "arch": "a", "data": "digits", "data_seed": 0,
        "data_name": "d", "data_title": "D", "data_digest": "x", "classes": ["0", "1"], "side": 8,
        "mean": [0.5], "sd": [0.25], "recipe": {"name": "r"}, "epochs": 1, "seed": 0, "trained_on": "train",
        "valid": {"fraction": 0.5, "images": 10}, "test": None, "seconds": 1.5, "device": "cpu", "versions": {},
    }  # fmt: skip
    whole = json.dumps(about).encode()
    return Foreign("training.json", whole, lambda path: read_training(path.parent))


def out_of_safetensors(packed):
    """The header, two zero bytes, and the tensors."""
    length = 8 + int.from_bytes(packed[:8], "little")
    return packed[8:length] + b"\0\0" + packed[length:]


def in_safetensors(content):
    """The container of what `out_of_safetensors` took apart."""
    header, _, tensors = content.partition(b"\0\0")
    return len(header).to_bytes(8, "little") + header + tensors


def training_checkpoint():
    import torch  # noqa: PLC0415 - most readers need none
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    from nas.fit.training.checkpoint import load_checkpoint as load  # noqa: PLC0415 - imports torch

    generator = torch.Generator()
    state = {
        "network.w": torch.zeros(2, 3), "step": torch.tensor(4), "random": generator.get_state(),
    }  # fmt: skip
    past = {"losses": [1.5], "accuracies": [None], "seconds": 2.0}
    header = {"progress": json.dumps(past), "identity": json.dumps({"arch": "a", "seed": 1})}
    read_all = lambda path: load(path, state, {"arch": "a", "seed": 1})  # noqa: E731 - short
    whole = out_of_safetensors(save(state, header))
    return Foreign("checkpoint.safetensors", whole, read_all, pack=in_safetensors)


def weights():
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    from edgenas_core.types.task import Task  # noqa: PLC0415 - loaded when needed
    from nas.export.network import with_weights  # noqa: PLC0415 - imports torch

    task = Task("tiny", 2, 8, 3, "Tiny")
    row = SPACE.architectures(np.array(0))
    whole = out_of_safetensors(save(SPACE.network(row, task).state_dict()))
    read_all = lambda path: with_weights(SPACE, row, task, path)  # noqa: E731 - short
    return Foreign("weights.safetensors", whole, read_all, pack=in_safetensors)


def checkpoint(**options):
    import torch  # noqa: PLC0415 - most readers need none

    from nas.fit.starts.weights_file import read_tensors  # noqa: PLC0415 - imports torch

    file = io.BytesIO()
    state = {"model": {"w": torch.ones(2, 3), "b": torch.zeros(2)}, "epoch": 3, "name": "net"}
    torch.save(state, file, **options)
    return Foreign("net.pth", file.getvalue(), read_tensors)


def old_checkpoint():
    return checkpoint(_use_new_zipfile_serialization=False)


def pool_weights():
    import torch  # noqa: PLC0415 - loaded when needed
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    from nas.fit.starts.pretrained.pool import pool_of  # noqa: PLC0415 - imports timm

    about = {
        "architecture": "mobilenetv2_050", "arguments": "{}", "mean": "[0.5, 0.5, 0.5]", "sd": "[0.2, 0.2, 0.2]",
        "side": "96", "top1": "0.5", "linear": "[]",
    }  # fmt: skip
    whole = out_of_safetensors(save({"w": torch.zeros(2)}, about))
    read_all = lambda path: pool_of(str(path))  # noqa: E731 - short
    return Foreign("mobilenetv2_050.safetensors", whole, read_all, pack=in_safetensors)


def annotations():
    from nas.fit.learners.annotations import Annotations  # noqa: PLC0415 - imports torch

    content = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 8, "height": 8} for n in (1, 2)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"image_id": n, "category_id": 1, "bbox": [1, 1, 4, 4.5]} for n in (1, 2)],
    }

    def read_all(path):
        for number in (1, 2):
            Image.new("RGB", (8, 8)).save(path.with_name(f"{number}.png"))
        Annotations(path.parent)

    return Foreign("annotations.json", json.dumps(content).encode(), read_all)


FILES = {
    make.__name__: make
    for make in (
        latency_table, calibration_networks, stored_settings, journal, measured_times,
        nats_pickles, parquet_images, onnx_network, summary, training_record,
        training_checkpoint, weights, checkpoint, old_checkpoint, pool_weights, annotations,
    )
} | {kind: lambda kind=kind: image(kind) for kind in ("PNG", "JPEG", "MPO", "GIF", "BMP", "TIFF", "WEBP", "PPM")}  # fmt: skip

FEW = 4
"""Examples of a quick run, always the same ones."""
EXAMPLES = [FEW, pytest.param(500, marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_file_is_read_or_refused(name, examples, tmp_path):
    foreign = FILES[name]()
    path = tmp_path / foreign.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(foreign.pack(foreign.whole))
    foreign.read(path)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(damaged(foreign.whole))
    @example(b"\x80" + foreign.whole)
    def check(content):
        path.write_bytes(foreign.pack(content))
        with bounded_memory(), suppress(*foreign.refusals):
            foreign.read(path)

    check()


@pytest.mark.parametrize("name", [name for name in FILES if name.islower()])
def test_a_pipe_is_not_read_as_a_file(name, tmp_path):
    foreign = FILES[name]()
    path = tmp_path / foreign.name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)

    with suppress(*foreign.refusals):
        foreign.read(path)


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


def search_log(path):
    arrays = {
        "space": np.array(SPACE.name), "seeds": np.arange(2), "index": np.zeros((2, 3), np.int64),
        "elapsed_s": np.ones(3),
    }  # fmt: skip

    def read_all(changed):
        np.savez(path, **changed)
        load_log(path, SPACE)

    return arrays, read_all


@pytest.mark.parametrize("examples", EXAMPLES)
def test_arrays_of_other_shapes_and_values_are_read_or_refused(examples, tmp_path):
    arrays, read_all = search_log(tmp_path / "arrays.npz")
    read_all(arrays)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(st.sampled_from(sorted(arrays)), st.sampled_from(STRANGE_ARRAYS))
    def check(which, strange):
        with bounded_memory(), suppress(UserError):
            read_all({**arrays, which: strange(arrays[which])})

    check()
