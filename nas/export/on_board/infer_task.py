"""Answer for an image, drawn: `python infer.py image.png [out.png]`."""

import argparse
import colorsys
import json
import sys
from pathlib import Path
from typing import Any, Tuple

import numpy as np
from PIL import Image, ImageDraw

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from pixels import rgb, stretched, upright  # type: ignore[import-not-found]  # noqa: E402 - beside this file


def colour(number: int) -> Tuple[int, ...]:
    """Colour of a class."""
    rgb = colorsys.hsv_to_rgb(number * 0.618 % 1, 0.75, 1.0 if number % 2 else 0.75)
    return tuple(round(255 * part) for part in rgb)


def masked(image: Any, classes: Any) -> Any:
    """The image under the colours of its classes; the first class is the background."""
    colours = np.array([colour(number) for number in range(classes.max() + 1)])
    mask = Image.fromarray(classes.astype("uint8")).resize(image.size, Image.Resampling.NEAREST)
    numbers, pixels = np.asarray(mask), np.asarray(image)
    mixed = np.where(numbers[..., None] > 0, (pixels + colours[numbers]) / 2, pixels)
    return Image.fromarray(mixed.astype("uint8"))


def boxed(image: Any, outputs: Any, about: Any) -> Any:
    """The image with boxes, and a line for each."""
    boxes, scores, selected = outputs
    draw = ImageDraw.Draw(image)
    scale = np.array([image.width, image.height] * 2) / about["side"]
    first = [each for each in selected if each[0] == 0]  # copies of the image may follow
    for _, label, anchor in sorted(first, key=lambda each: -scores[0, each[1], each[2]]):
        score = scores[0, label, anchor]
        if score < about["sure"]:
            continue
        left, top, right, bottom = (boxes[0, anchor] * scale).round().tolist()
        name = about["classes"][label + 1]
        draw.rectangle((left, top, right, bottom), outline=colour(int(label) + 1), width=2)
        draw.text((left + 3, top + 1), name, fill=colour(int(label) + 1))
        print(f"{score:6.2%}  {name}  {left:g}, {top:g} to {right:g}, {bottom:g}")
    return image


def main() -> None:
    """Draw the answer, and print what it holds."""
    about = json.loads((HERE / "preprocessing.json").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    parser.add_argument("out", nargs="?", default="answer.png")
    chosen = parser.parse_args()
    try:
        image = rgb(upright(chosen.image), about["limits"])
    except Exception as error:  # noqa: BLE001 - a damaged file raises anything
        parser.exit(2, " ".join(f"{chosen.image}: {error}".split()) + "\n")
    import onnxruntime  # noqa: PLC0415 - slow to import

    side = about["side"]
    pixels = stretched(image, side) / np.float32(255)
    batch = ((pixels - np.float32(about["mean"])) / np.float32(about["sd"])).transpose(2, 0, 1)
    session = onnxruntime.InferenceSession(
        str(HERE / about["answers"]), providers=["CPUExecutionProvider"]
    )
    inputs = np.repeat(batch[None].astype("float32"), about["batch"] or 1, 0)
    outputs = session.run(None, {"input_0": inputs})
    if about["task"] == "detection":
        picture = boxed(image, outputs, about)
    else:
        picture = masked(image, outputs[0][0])
        for number, count in zip(*np.unique(outputs[0][0], return_counts=True)):
            print(f"{count / outputs[0][0].size:6.2%}  {about['classes'][number]}")
    try:
        picture.save(chosen.out)
    except (OSError, ValueError) as error:
        parser.exit(2, f"{chosen.out}: {error}\n")
    print(f"drawn: {chosen.out}")


if __name__ == "__main__":
    main()
