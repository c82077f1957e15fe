"""Every kind of image becomes square RGB pixels, or is refused with a reason."""

import io
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from nas.fit.data.decode import Treatment, UndecodableError, decode, limits_of_all


def encoded(image, kind="PNG", **settings):
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def test_an_image_of_the_right_size_is_not_changed(picture):
    image = picture(0, (8, 8))

    decoded = decode(encoded(image), 8)

    assert (decoded.pixels == np.asarray(image)).all()
    assert decoded.treatment is Treatment.none


def test_the_longer_side_is_cropped_at_both_ends():
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 4:12] = (255, 128, 0)

    decoded = decode(encoded(Image.fromarray(pixels)), 8)

    assert (decoded.pixels == (255, 128, 0)).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_the_usual_formats_are_read(kind):
    decoded = decode(encoded(Image.new("RGB", (20, 20), (200, 60, 40)), kind), 8)

    assert decoded.pixels == pytest.approx(np.full((8, 8, 3), (200, 60, 40)), abs=6)


@pytest.mark.parametrize(
    ("image", "kind", "colour", "treatment"),
    [
        (Image.new("L", (8, 8), 70), "PNG", (70, 70, 70), Treatment.grey),
        (Image.new("1", (8, 8), 1), "PNG", (255, 255, 255), Treatment.grey),
        (Image.new("P", (8, 8), 3), "PNG", None, Treatment.none),
        (Image.new("RGBA", (8, 8), (9, 9, 9, 0)), "PNG", (255, 255, 255), Treatment.transparent),
        (Image.new("RGBA", (8, 8), (9, 8, 7, 255)), "PNG", (9, 8, 7), Treatment.none),
        (Image.new("LA", (8, 8), (70, 255)), "PNG", (70, 70, 70), Treatment.grey),
        (Image.new("LA", (8, 8), (0, 0)), "PNG", (255, 255, 255), Treatment.transparent),
        (Image.new("CMYK", (8, 8), (0, 0, 0, 255)), "JPEG", (0, 0, 0), Treatment.cmyk),
        (Image.new("CMYK", (8, 8), (0, 0, 0, 255)), "TIFF", (0, 0, 0), Treatment.cmyk),
        (Image.new("I;16", (8, 8), 257 * 70), "PNG", (70, 70, 70), Treatment.deep),
        (Image.new("I;16", (8, 8), 65535), "TIFF", (255, 255, 255), Treatment.deep),
    ],
)
def test_other_modes_become_rgb_and_are_named(image, kind, colour, treatment):
    decoded = decode(encoded(image, kind), 8)

    assert decoded.pixels.shape == (8, 8, 3)
    assert decoded.treatment is treatment
    if colour is not None:
        assert decoded.pixels == pytest.approx(np.full((8, 8, 3), colour), abs=3)


@pytest.mark.parametrize(
    ("dtype", "kind"), [("uint16", "PNG"), ("int32", "TIFF"), ("float32", "TIFF")]
)
def test_deep_images_keep_the_range_of_their_set(dtype, kind):
    rng = np.random.default_rng(0)
    values = [rng.uniform(low, low + 400, (16, 16)).astype(dtype) for low in (8000, 8500)]
    images = [encoded(Image.fromarray(each), kind) for each in values]

    limits = limits_of_all([*images, b"damaged", encoded(Image.new("RGB", (8, 8)))])
    pixels = np.array([decode(each, 16, limits).pixels[..., 0] for each in images])

    assert limits == pytest.approx((8000, 8900), abs=20)
    wanted = (np.array(values) - limits[0]) / (limits[1] - limits[0]) * 255
    assert pixels == pytest.approx(wanted.clip(0, 255), abs=0.5)
    assert len(np.unique(pixels)) > 100


def test_a_hot_pixel_and_what_is_no_number_do_not_stretch_the_range():
    values = np.random.default_rng(0).uniform(20, 30, (64, 64)).astype("float32")
    values[0, :2] = (np.nan, 9e9)

    low, high = limits_of_all([encoded(Image.fromarray(values), "TIFF")])

    assert 20 <= low < 21
    assert 29 < high <= 30
    assert limits_of_all([encoded(Image.new("L", (8, 8)))]) is None


def test_a_scene_is_stretched_where_a_photo_is_cropped():
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 8:] = 255

    decoded = decode(encoded(Image.fromarray(pixels)), 8, is_cropped=False)

    assert (decoded.pixels[:, :3] == 0).all()
    assert (decoded.pixels[:, 5:] == 255).all()


def test_a_photograph_is_turned_as_its_camera_says():
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:4] = 255  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down

    decoded = decode(encoded(Image.fromarray(pixels), exif=exif), 8)

    assert (decoded.pixels[:4] == 0).all()
    assert (decoded.pixels[4:] == 255).all()


def header_of_png(width, height):
    """A PNG of a few bytes that announces any size."""

    def chunk(kind, content):
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"0"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"a text", "not JPEG, PNG"),
        (header_of_png(60_000, 60_000), "larger than 100 million pixels"),
        (header_of_png(10_001, 10_000), "larger than 100 million pixels"),
        (header_of_png(10, 10), "truncated or damaged"),
        (encoded(Image.new("F", (8, 8), 0.5), "TIFF"), "of floating-point pixels"),
        (encoded(Image.new("I", (8, 8), 10**6), "TIFF"), "of 32-bit pixels"),
        (encoded(Image.new("RGB", (8, 8)), "ICO"), "not JPEG, PNG"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(content, reason):
    with pytest.raises(UndecodableError, match=reason):
        decode(content, 8)


def test_a_jpeg_that_ends_early_is_refused(picture):
    whole = encoded(picture(0, (64, 64)), "JPEG")

    with pytest.raises(UndecodableError, match="truncated or damaged"):
        decode(whole[: len(whole) // 2], 8)


def test_postscript_is_not_run(tmp_path):
    made = tmp_path / "made"
    program = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n({made}) (w) file closefile\n"
    content = encoded(Image.new("RGB", (9, 9)), "EPS")
    assert content.startswith(b"%!PS")  # Pillow would open it with Ghostscript, if there is one
    assert shutil.which("gs") is None or Image.open(io.BytesIO(content)).format == "EPS"

    with pytest.raises(UndecodableError, match="not JPEG"):
        decode(program.encode(), 8)

    assert not made.exists()


def test_a_file_that_may_not_be_read_is_named_so(tmp_path):
    with pytest.raises(UndecodableError, match=r"unreadable \(No such file or directory\)"):
        decode(tmp_path / "gone.png", 8)
