"""`python -m nas.export`: Hydra composes, a network of a finished run becomes a folder of files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from nas.export.config import ExportConfig
from nas.export.docstring import docstring
from nas.export.folder import RECORD, filling, require_place
from nas.export.found import Found, find
from nas.export.readme import here_text, readme
from nas.export.record import Checked, record
from runtime.shell.errors import UserError
from runtime.shell.hydra_command import typed_hydra_command


def main() -> None:
    """Run the command line's export."""
    sys.argv[1:] = [_quoted(argument) for argument in sys.argv[1:]]
    typed_hydra_command("nas.export", "export", ExportConfig, _export)


def _quoted(argument: str) -> str:
    """An architecture's text may have signs that mean something to Hydra, unless it is quoted."""
    arch = argument.removeprefix("arch=")
    is_plain = arch == argument or arch[:1] in {"'", '"'} or arch.replace("-", "").isalnum()
    return argument if is_plain else f"arch='{arch}'"


def _export(config: ExportConfig) -> None:
    export(config, Console(highlight=False, emoji=False))


def export(config: ExportConfig, console: Console) -> Path:
    """Write, check and time a network; returns the folder.

    Raises:
      UserError: if the run has no such network, the folder holds something else, or a check fails.
      OSError: if the folder cannot be written.
    """
    config.check()
    found = find(Path(config.run).expanduser(), config.which, config.arch)
    out = Path(config.out).expanduser() if config.out else found.run / "export"
    require_place(out, found.arch, found.space.name, found.task)
    _say(console, f"{found.title}: {found.arch}, {found.named} of {found.run}")
    _say(console, f"accuracy {found.accuracy_text}; latency {found.latency_text}")
    with filling(out) as folder, _one_thread():
        _fill(folder, found, config, console)
    _say(console, f"untrained weights, seed {config.seed}; next: read {out / 'README.md'}")
    return out


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums are then added in the same order in every interpreter, and no idle thread spins."""
    import torch  # noqa: PLC0415 - seconds that a refused command does not pay

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fill(folder: Path, found: Found, config: ExportConfig, console: Console) -> None:
    """Every file of the export, `export.json` last."""
    from safetensors.torch import save  # noqa: PLC0415 - imports torch

    from nas.export import network as networks  # noqa: PLC0415 - imports torch
    from nas.export.this_machine import device_id, timed  # noqa: PLC0415 - imports onnxruntime
    from runtime.network.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - imports torch
    from runtime.network.formats.onnx_session import OnnxSession  # noqa: PLC0415 - imports onnxruntime

    network = networks.initialised(found.space, found.architecture, found.task, config.seed)
    images = networks.images_of(found.space, found.architecture, found.task)
    outputs = networks.outputs_of(network, images)

    about = docstring(_about(found, config.seed))
    source = f"{about}\n{found.space.source(found.architecture, found.task)}"
    (folder / "network.py").write_text(source, encoding="utf-8")
    (folder / "weights.safetensors").write_bytes(save(network.state_dict()))

    try:
        onnx = onnx_bytes(network, [images[:1]], opset=config.opset)
        session = OnnxSession(onnx)
    except (RuntimeError, ValueError) as refused:
        raise UserError(f"opset={config.opset}: {refused}") from refused
    (folder / "network.onnx").write_bytes(onnx)
    error = networks.onnx_error(session, images.numpy(), outputs.numpy())
    _say(
        console,
        f"network.onnx in ONNX Runtime: max abs error {error:.3g} against torch, "
        f"allowed {config.tolerance:g}",
    )
    if not error <= config.tolerance:
        raise UserError(
            f"network.onnx differs from torch by {error:.3g}, more than "
            f"tolerance={config.tolerance:g}; nothing was exported"
        )
    networks.require_same_elsewhere(folder, images, outputs)
    _say(console, "network.py in a fresh interpreter: bit-exact")

    here = {"device": device_id(config.board), **timed(session, images[:1].numpy(), config.timing)}
    checked = Checked(
        images=len(images),
        onnx_error=error,
        tolerance=config.tolerance,
        largest_logit=float(outputs.abs().max()),
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        input_shape=(1, *images.shape[1:]),
    )
    entries = record(found, checked, here, seed=config.seed, opset=config.opset)
    (folder / "README.md").write_text(readme(found, entries), encoding="utf-8")
    entries["sha256"] = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
    }
    (folder / RECORD).write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    _say(console, f"this machine: {here_text(here)}; {entries['comparison']}")


def _about(found: Found, seed: int) -> list[str]:
    return [
        f"{found.title} for {found.task.name}: {found.arch}",
        f"Accuracy: {found.accuracy_text}. Source: {found.accuracy_source}.",
        f"Latency: {found.latency_text}. Source: {found.latency_source}.",
        (
            f"The weights in weights.safetensors are NOT TRAINED: torch's initialisation of seed {seed}, "
            f"with statistics of noise in the batch normalisations. The accuracy above is what "
            f"training as the benchmark did is reported to give."
        ),
        "Load them with network.load_state_dict(safetensors.torch.load_file('weights.safetensors')).",
    ]


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)
