"""`python -m nas.check a.onnx b.tflite photos/`."""

from __future__ import annotations

from edgenas_core.command.exit_status import run_command

if __name__ == "__main__":
    run_command("nas.check.command")
