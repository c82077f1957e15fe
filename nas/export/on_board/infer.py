"""Class of an image: `python infer.py image.png [network-int8.onnx]`."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from check import network_of, normalised  # type: ignore[import-not-found]  # noqa: E402 - beside this file
from pixels import cropped, in_channels, rgb, upright  # type: ignore[import-not-found]  # noqa: E402 - it lies beside this file


def main() -> None:
    """Print the three most probable classes, and before them if it is none; the labels that are shown, or the number."""
    about = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    networks = sorted(
        path.name for path in HERE.glob("network*.*") if path.suffix in {".onnx", ".tflite"}
    )
    parser.add_argument("network", nargs="?", choices=networks, default=about["network"])
    asked = parser.parse_args()
    network = HERE / asked.network
    try:
        image = rgb(upright(asked.image, about["cropped_to"]), about["limits"])
    except Exception as error:  # noqa: BLE001 - a damaged file raises anything
        parser.exit(2, " ".join(f"{asked.image}: {error}".split()) + "\n")
    square, sides = cropped(image, about["cropped_to"]), (about["side"], about["side"])
    pixels = np.asarray(Image.fromarray(square).resize(sides, 2))  # bilinear, as in training
    pixels = in_channels(pixels, about["channels"].lower())
    batch = np.repeat(normalised(pixels[None], about), about["batch"] or 1, axis=0)
    logits = network_of(network)(batch)[0]
    if about["task"] == "regression":
        mean, sd = about["unit"]
        print(f"{mean + sd * logits[0]:.6g}")
        return
    if about["task"] == "multilabel":
        for number in np.flatnonzero(logits > 0):
            print(f"{1 / (1 + np.exp(-logits[number])):6.2%}  {about['classes'][number]}")
        return
    known = about.get("probabilities", {}).get(asked.network, {})
    powers = np.exp((logits - logits.max()) / known.get("temperature", 1))
    probabilities = powers / powers.sum()
    if probabilities.max() < known.get("none_below", 0):
        digits = 2 if probabilities.max() < 0.995 else 6  # a threshold may be close to 1
        print(f"none of these ({probabilities.max():.{digits}f})")
    for number in np.argsort(-probabilities)[:3]:
        print(f"{probabilities[number]:6.2%}  {about['classes'][number]}")


if __name__ == "__main__":
    main()
