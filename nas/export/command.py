"""`python -m nas.export`: Hydra composes, a network becomes a folder of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.command.json_output import add_result
from nas.export.config import ExportConfig, ExportFormat
from nas.export.folder import filling, require_place
from nas.export.searched import Which
from nas.export.subject import subject_of
from nas.report.handed_network import HandedNetwork
from nas.spaces.registry import default_space

_ABOUT = """
Write a network as files that stand alone: weights, PyTorch, ONNX or TFLite in fp32, fp16 and int8, scripts, a card.

  python -m nas.export run=runs/2026-11-21/09-00-00-proposed-jetson-nano-fp32-b1-T17ms
  python -m nas.export weights=<folder of a trained network> precision=int8
  python -m nas.export space=nas_bench_201 arch=1462 data=digits
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's export."""
    typed_hydra_command("nas.export", "export", ExportConfig, _export, words=words, about=_ABOUT)


def _export(config: ExportConfig) -> None:
    add_result(folder=export(config, PlainConsole()))


def export_run(
    run: Path,
    which: str,
    console: Console,
    *,
    in_tflite: bool = False,
    handed: HandedNetwork | None = None,
) -> Path:
    """Export a network of a finished run by the defaults, within a command; returns the folder.

    Args:
      run: folder of the run.
      which: best or optimum.
      console: prints what was made.
      in_tflite: write .tflite files, too.
      handed: instead of `which`, the network for a smaller limit, into `export-T2ms`.

    Raises:
      UserError: as `export` does.
    """
    config = ExportConfig(run=str(run.absolute()), which=Which[which], space=default_space())
    if handed is not None:
        config.which, config.arch = None, handed.arch
        config.out = str(run.absolute() / handed.export_name)
    if in_tflite:
        config.formats = [ExportFormat.onnx, ExportFormat.tflite]
    return export(config, console)


def export(config: ExportConfig, console: Console) -> Path:
    """Write, check and time a network; returns the folder.

    Raises:
      UserError: if there is no such network, the folder holds something else, or a check fails.
      OSError: if the folder cannot be written.
    """
    tell = partial(say, console)
    config.check()
    subject = subject_of(config)
    out = Path(config.out).expanduser() if config.out else _default_folder(config)
    require_place(out, subject.arch, subject.space.name, subject.task)
    is_trained = "" if subject.is_trained else "UNTRAINED: "
    tell(f"{is_trained}{subject.title} for {subject.task}: {subject.arch}")
    if subject.searched is not None:
        tell(f"{subject.searched.named} of {subject.searched.run}")
        tell(f"{subject.metric} in the search: {subject.searched.accuracy_text}")
        tell(f"latency in the search: {subject.searched.latency_text}")
    with filling(out) as folder, _one_thread():
        from nas.export.content import fill  # noqa: PLC0415 - imports torch and onnxruntime

        record = fill(folder, subject, config, tell)
    console.print(record.table, soft_wrap=True)
    for line in record.lines:
        tell(line)
    tell(subject.weights_text)
    tell(f"next: read {out / 'README.md'}; on the board, run python check.py in that folder")
    return out


def _default_folder(config: ExportConfig) -> Path:
    """`export` where the network is from: in the run's folder, in that of the trained network, or here."""
    folder = Path(config.run or config.weights or "").expanduser()
    return (folder if config.run or folder.is_dir() else Path()) / "export"


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
