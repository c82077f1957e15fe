"""Settings of earlier versions, each with its new name or with what to do without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgenas_core.types.errors import UserError

_REACH: Mapping[str, str] = {
    "ssh_config": "write device='cmd://ssh -F <file> <host>'",
    "tries": "a lost board is connected to 5 times in a row",
}
"""How a board is reached."""

_BOARD: Mapping[str, str] = {
    **{f"latency.{name}": f"{name}=" for name in ("runtime", "python")},
    **{f"{group}{name}": text for group in ("", "latency.") for name, text in _REACH.items()},
    "latency.silence_s": "a board is lost after 120 s without an answer",
    "latency.connect_s": "a connection may take 20 s",
    "latency.backoff_s": "the first wait between two connections is 2 s",
}
"""Of a board, in commands without sources of latencies."""

_QUIET = ("control_drift", "other_load", "stolen", "clock_drop")
"""Limits, each of which had a setting; `tolerance` is a factor on all."""

_SAMPLES = "timing.samples"

_TIMING: Mapping[str, str] = {
    f"timing.{name}": f"it follows {_SAMPLES}"
    for name in ("turn", "warm_up_window", "warm_up_tolerance", "warm_up_most")
}

_LIVE: Mapping[str, str] = {
    **{f"latency.{name}": f"it follows latency.{_SAMPLES}" for name in _TIMING},
    **{
        name: _BOARD[name]
        for name in ("latency.silence_s", "latency.connect_s", "latency.backoff_s")
    },
    **{f"latency.{name}": text for name, text in _REACH.items()},
    **{f"latency.{name}": "latency.tolerance=2 doubles its limit" for name in _QUIET},
    "latency.timing.settle_s": "a board is busy while it warms up",
    "latency=corun": "write scenario=<name> alone",
}
"""Of the latencies of a live board."""

_OLD: Mapping[str, Mapping[str, str]] = {
    "nas.measure": {
        **_BOARD,
        **_TIMING,
        "backend": "runtime=",
        **{
            f"{group}{name}": "tolerance=2 doubles its limit"
            for group in ("", "quiet.")
            for name in _QUIET
        },
        "correct_drift": "take on_disturbance=flag, and run the command again when the host is quiet",
        "together": "each network is timed in turns with the reference network",
        "shard": "measure in one process; several slow each other down",
    },
    "nas.export": {
        **_BOARD,
        **_TIMING,
        "timing.settle_s": "the files are called until their times are stable",
        "seed": "untrained weights are the same each time",
        "sample": "500 test images are in the export; remove test_images.npz to keep them to yourself",
        "tolerance": "logits may differ by 1e-4",
    },
    "nas.train": {"device": "accelerator=", "runs": "out="},
    "nas.study": {
        "folder": "out=",
        "runs": "name the folder of the study, out=<folder>",
        "first_seed": "seeds are counted from 0",
        "compare": "controllers are compared where reference= is one, or where there is one reward",
        "problems": "write devices=[device@limit]",
        **dict.fromkeys(
            ("grid_devices", "grid_rewards"),
            "a grid is of all devices and rewards; make it a study of its own",
        ),
        "backend": "a study runs on the processors of this machine",
    },
    "nas.search": {
        **_LIVE,
        "runs": "out=",
        "latency.unmeasured": "latency=auto predicts what a table lacks, latency=table refuses it",
    },
    "nas.fit": {**_LIVE, "runs": "out="},
}
"""By command: a new name ends in `=`; anything else is what holds now."""


OF_SOME: Mapping[str, str] = {
    "latency.implausible": "; latency=table has it",
    "controller.batch_size": "; rnn and reinforce have it, others propose as many at once as there are boards",
}
"""Settings that some choices of a group lack now, with what holds there."""


def require_current(command: str, words: Iterable[str]) -> None:
    """Refuse settings that have another name now, or are gone.

    Args:
      command: such as nas.search.
      words: settings as on its command line, or their names alone.

    Raises:
      UserError: for the first of them, with its new name or with what to do without it.
    """
    old = _OLD.get(command, {})
    for word in words:
        name = word.lstrip("+~").partition("=")[0]
        advice = old.get(name)
        if advice is not None:
            is_renamed = advice.endswith("=")
            raise UserError(
                f"{name}= is now {advice}" if is_renamed else f"{name}= is gone: {advice}"
            )
        if word in old:
            raise UserError(f"{word} is gone: {old[word]}")
