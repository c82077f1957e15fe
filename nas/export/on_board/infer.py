"""Class of an image: `python infer.py image.png [network-int8.onnx]`."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MOST_PIXELS = 100000000


def pixels_of(path: str, cropped_to: int, side: int) -> Any:
    """(side, side, 3) bytes, as the training images were prepared: cropped, then resized again."""
    with Image.open(path, formats=FORMATS) as file:
        if file.width * file.height > MOST_PIXELS:
            raise ValueError("it has more than 100 million pixels")
        if file.format == "JPEG":  # a large one is halved as it is decoded
            file.draft(None, (2 * cropped_to, 2 * cropped_to))
        image = ImageOps.exif_transpose(file)
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    if image.mode.startswith("I"):  # 16 bits
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("its pixels have 32 bits")
        image = Image.fromarray(np.rint(values / 257).astype("uint8"))
    if "A" in image.getbands() or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    image = ImageOps.fit(image.convert("RGB"), (cropped_to, cropped_to), 2)  # bilinear
    return np.asarray(image.resize((side, side), 2))


def main() -> None:
    """Print the three most probable classes, the labels that are shown, or the number."""
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
        pixels = pixels_of(asked.image, about["cropped_to"], about["side"])
    except Exception as error:  # noqa: BLE001 - a damaged file raises anything
        parser.exit(2, " ".join(f"{asked.image}: {error}".split()) + "\n")
    sys.path.insert(0, str(HERE))
    from check import network_of, normalised  # type: ignore[import-not-found]  # noqa: PLC0415 - beside this file

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
    probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    for number in np.argsort(-probabilities)[:3]:
        print(f"{probabilities[number]:6.2%}  {about['classes'][number]}")


if __name__ == "__main__":
    main()
