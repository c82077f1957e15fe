"""What a finished run says to `--json`: its files, the network to use, and whether it meets the limits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgenas_core.types.kind import Kind
from nas.report.answer import Answer, Status
from nas.report.number import Number
from nas.report.run_folder import RunFolder
from nas.report.summary import Summary
from nas.spaces.trusted_code import export_command


def result_of(folder: RunFolder, summary: Summary, data: str | None = None) -> dict[str, Any]:
    """Fields of `results`, as docs/reference/json.md describes them; `data` is what networks were trained on."""
    answer, export = Answer(summary), folder.path / "export"
    return {
        "folder": folder.path,
        "summary": folder.summary,
        "page": folder.report,
        "export": export if export.is_dir() else None,
        "device": summary.device,
        "T_ms": summary.T_ms,
        "network": _network(answer, folder.path, data),
        "networks": [
            {
                **asdict(handed),
                "export_command": f"{handed.export_command(folder.path, summary.settings.space, data)} --json",
            }
            for handed in summary.handed
        ],
        "is_confirmed": answer.network is not None
        and answer.status is not Status.unconfirmed
        and answer.network.latency.kind is Kind.measured,
        "status": answer.status.value,
        "notes": list(answer.notes),
    }


def _network(answer: Answer, folder: Path, data: str | None) -> dict[str, Any] | None:
    """The network to use; None if none met the limits."""
    network = answer.network
    if network is None:
        return None
    named = {"run": str(folder), "which": answer.which}
    command = export_command(named, answer.summary.settings.space, data)
    return {
        "arch": network.arch,
        "accuracy": _number(network.accuracy),
        "test_accuracy": None if network.test is None else _number(network.test),
        "latency": _number(network.latency),
        "costs": network.costs,
        "parameters": network.parameters,
        "export_command": f"{command} --json",
    }


def _number(number: Number) -> dict[str, Any]:
    return {
        "value": number.value,
        "unit": number.unit,
        "kind": number.kind.name,
        "is_measured": not number.kind.is_predicted,
        "sd": number.sd,
    }
