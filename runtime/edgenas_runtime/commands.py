"""Commands that this package adds to `edgenas`."""

from __future__ import annotations

from edgenas_core.command.plug_ins import Command

MAP = Command("edgenas_runtime.mapping.command", "find the time that is left on a busy board")
