"""How long the benchmark's networks were trained: 200 epochs, or 12 as a cheaper signal."""

from __future__ import annotations

from runtime.shell.errors import UserError

FULL_EPOCHS = 200
SHORT_EPOCHS = 12


def check_epochs(epochs: int) -> None:
    """Accept the benchmark's two schedules.

    Raises:
      UserError: if `epochs` is another number.
    """
    if epochs not in {FULL_EPOCHS, SHORT_EPOCHS}:
        raise UserError(
            f"epochs={epochs}, but NATS-Bench trained for {FULL_EPOCHS} or {SHORT_EPOCHS} epochs; "
            f"choose one of them"
        )
