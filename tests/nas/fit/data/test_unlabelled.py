"""Photos without labels: which of them are trained on."""

import numpy as np
from PIL import Image

from nas.fit.data.unlabelled import UnlabelledPhotos


def _photo(seed):
    """Blocks of random colours, which a change of contrast does not hide."""
    blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    return Image.fromarray(blocks).resize((64, 64), Image.Resampling.NEAREST)


def test_copies_of_validation_and_test_images_are_left_out_and_told(tmp_path, opened):
    for label, first in (("a", 0), ("b", 100)):
        (tmp_path / "set" / label).mkdir(parents=True)
        for number in range(12):
            _photo(first + number).save(tmp_path / "set" / label / f"{number}.png")
    images = opened(tmp_path / "set", share=0.2, side=32)
    further = tmp_path / "further"
    further.mkdir()
    held_out = [*images.valid.pixels, *images.test.pixels]
    for number, pixels in enumerate(held_out):
        copy = Image.fromarray(pixels)
        copy.resize((90, 90)).point(lambda value: 20 + 0.8 * value).save(
            further / f"near{number}.jpg"
        )
        copy.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(further / f"mirrored{number}.png")
    Image.fromarray(held_out[0]).save(further / "equal.png")
    for number in range(5):
        _photo(500 + number).save(further / f"other{number}.png")

    usable, told = UnlabelledPhotos(further).usable(1000, images)

    assert {file.stem for file in usable} == {f"other{number}" for number in range(5)}
    assert f"left out: {2 * len(held_out) + 1} of {2 * len(held_out) + 6} images" in told
