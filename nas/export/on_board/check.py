"""Check that this machine gets the accuracy and the latency of the card: `python check.py [images.npz]`.

Each network of this folder is run on the images (by default those that lie here) and timed, one
inference at a time on one thread. An .npz file has `pixels` (n, side, side, 3), bytes, and `labels`
(n), numbers. It needs numpy, onnxruntime for .onnx and ai-edge-litert for .tflite files. Exit status 1: something is not what the card says.
"""

import hashlib
import json
import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

HERE = Path(__file__).parent

OTHERS = 0.01
"""Share of the images that the kernels of another processor may put into another class."""

SLOWER = 1.25
"""Latency on the card's own machine, as a multiple of the card's, that is still as it says."""

CALLS = 100


class Onnx:
    """An .onnx file in ONNX Runtime, on one thread."""

    def __init__(self, path: str) -> None:
        import onnxruntime  # noqa: PLC0415 - a board may have the other one only

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, images: Any) -> Any:
        """Logits of (n, 3, side, side) images."""
        return self._session.run(None, {"input_0": images})[0]

    def call(self, images: Any) -> Callable[[], object]:
        """One inference, to be timed."""
        return lambda: self(images)


class Tflite:
    """A .tflite file in LiteRT, on one thread; it takes images channels last, int8 in an int8 file."""

    def __init__(self, path: Any = None, content: Any = None) -> None:
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - loaded when needed

        self._interpreter = Interpreter(path, model_content=content, num_threads=1)
        self._interpreter.allocate_tensors()
        (self._input,) = self._interpreter.get_input_details()
        (self._output,) = self._interpreter.get_output_details()
        self._lock = threading.Lock()

    def __call__(self, images: Any) -> Any:
        """Logits of (n, 3, side, side) images."""
        with self._lock:
            self.call(images)()
            logits = self._interpreter.get_tensor(self._output["index"])
        scale, zero = self._output["quantization"]
        return (logits.astype("float32") - zero) * scale if scale else logits

    def call(self, images: Any) -> Callable[[], object]:
        """One inference on these images, to be timed."""
        numbers = images.transpose(0, 2, 3, 1)
        scale, zero = self._input["quantization"]
        if scale:
            numbers = np.clip(np.rint(numbers / np.float32(scale)) + zero, -128, 127)
        self._interpreter.set_tensor(self._input["index"], numbers.astype(self._input["dtype"]))
        invoke: Callable[[], object] = self._interpreter.invoke
        return invoke


def network_of(path: Path) -> Any:
    """An exported file in its runtime."""
    return Tflite(str(path)) if path.suffix == ".tflite" else Onnx(str(path))


def normalised(pixels: Any, about: Dict[str, Any]) -> Any:
    """(n, side, side, 3) bytes as the (n, 3, side, side) numbers that a network takes, as in training."""
    mean, sd = (np.float32(about[name]) * np.float32(255) for name in ("mean", "sd"))
    return np.ascontiguousarray(((np.asarray(pixels) - mean) / sd).transpose(0, 3, 1, 2))


def classes_of(network: Any, images: Any, size: int) -> Any:
    """Class number of each image, `size` images at a time."""
    classes = []
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        filled = np.resize(batch, (size, *batch.shape[1:]))  # the last batch repeats images
        classes.append(network(filled)[: len(batch)].argmax(1))
    return np.concatenate(classes)


def latency_ms(network: Any, shape: List[int]) -> float:
    """Median of one inference after as many that warm up, milliseconds."""
    call = network.call(np.random.RandomState(0).standard_normal(shape).astype("float32"))
    taken = []
    for _ in range(2 * CALLS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken[CALLS:])) * 1e3


def board() -> str:
    """The name that this machine gives itself."""
    for path, start in (("/proc/device-tree/model", ""), ("/proc/cpuinfo", "model name")):
        try:
            lines = Path(path).read_bytes().decode("utf-8", "replace").strip("\0\n").split("\n")
        except OSError:
            continue
        for line in lines:
            if line.startswith(start):
                return line[len(start) :].strip("\t :")
    return platform.node()


def check(
    form: Dict[str, Any], card: Dict[str, Any], images: Any, labels: Any, is_own: bool
) -> bool:
    """Print what one network does here; whether it is what the card says."""
    network = network_of(HERE / form["file"])
    shape = [card["input_shape"][0] or 1, *card["input_shape"][1:]]
    parts, is_right = [], True
    if images is not None:
        right = int((classes_of(network, images, shape[0]) == labels).sum())
        parts.append(f"{right:,} of {len(labels):,} images right")
        if is_own:
            parts[-1] += f" (card {form['sample_right']:,})"
            is_right = abs(right - form["sample_right"]) <= max(1, OTHERS * len(labels))
            parts[-1] += "" if is_right else " OTHER ACCURACY"
    ms, carded = latency_ms(network, shape), form["latency"]
    is_fast = ms <= SLOWER * carded["median_ms"] or carded["board"] != board()
    parts.append(f"{ms:.3f} ms (card {carded['median_ms']:.3f} on {carded['device']})")
    parts[-1] += "" if is_fast else " TOO SLOW"
    print(f"{'ok ' if is_right and is_fast else 'NOT'} {form['file']}: {', '.join(parts)}")
    return is_right and is_fast


def main() -> int:
    """Print a line for each network, and one for each file that is not the exported one."""
    card = json.loads((HERE / "export.json").read_text(encoding="utf-8"))
    is_own = len(sys.argv) == 1
    file = HERE / "test_images.npz" if is_own else Path(sys.argv[1])
    images = labels = None
    if not is_own or (file.is_file() and card["sample"]):
        about = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
        with np.load(str(file), allow_pickle=False) as stored:
            images, labels = normalised(stored["pixels"], about), stored["labels"]
    here = [(HERE / name, digest) for name, digest in sorted(card["sha256"].items())]
    changed = [
        path.name
        for path, digest in here
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != digest
    ]
    for name in changed:
        print(f"NOT {name}: it is not the file that was exported")
    forms = [form for form in card["forms"] if (HERE / form["file"]).is_file()]
    agree = [check(form, card, images, labels, is_own) for form in forms]
    return 0 if all(agree) and agree and not changed else 1


if __name__ == "__main__":
    sys.exit(main())
