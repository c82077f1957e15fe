"""Why networks have no mapping, as far as that is told in a line."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.mapping.model.choices import Choices, frame_loads


def why_none(networks: Sequence[str], among: Choices, frame_ms: float) -> str:
    """A network that is longer than the frame; else units that are too full if each is quickest.

    Args:
      networks: their names; there is no mapping of them.
      among: their places.
      frame_ms: the frame.
    """
    least_ms = among.ms.min(1)
    longest = int(least_ms.argmax())
    if least_ms[longest] > frame_ms:
        return f"{networks[longest]} takes {least_ms[longest]:.2f} ms at least"
    loads_ms = frame_loads(among.ms.argmin(1), among)
    full = [
        f"{unit} for {ms:.2f} ms"
        for unit, ms in zip(among.platform.units, loads_ms, strict=True)
        if ms > frame_ms
    ]
    return f"each as it is quickest, they occupy {', '.join(full)}, and no other choice fits"
