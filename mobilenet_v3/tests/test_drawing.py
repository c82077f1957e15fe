"""The drawing of a network."""

from edgenas_mobilenet_v3.plugin import SPACE

TEXT = "r176 k3e3-k7e6 k5e3-k5e6-k3e3 k5e4-k5e4-k3e3 k5e6-k5e4-k3e4-k3e4 k3e6-k3e6-k7e6-k3e3"


def test_it_shows_the_side_and_each_block_as_high_as_its_kernel_and_as_wide_as_its_expansion():
    svg = SPACE.drawing(SPACE.parse(TEXT), "found").svg

    texts = [text.text for text in svg.iter("text")]
    boxes = [box for box in svg.iter("rect") if "stroke" in box.attrib][:16]
    assert "image 176 x 176" in texts
    assert texts.count("7x7, 6") == 2
    heights = [float(box.get("height")) for box in boxes[:2]]
    widths = [float(box.get("width")) for box in boxes[:2]]
    assert heights[1] / heights[0] == 7 / 3
    assert widths[1] / widths[0] == 6 / 3
