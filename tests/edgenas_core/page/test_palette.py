import pytest

from edgenas_core.page.palette import COLOURS, SEQUENTIAL, SERIES, band, style_sheet

LIGHT, DARK = 0, 1


def value(colour, scheme):
    return COLOURS[colour.removeprefix("var(--").removesuffix(")")][scheme]


def contrast(colour, other):
    """Contrast ratio of two colours, between 1 and 21 (WCAG 2.2)."""
    lighter, darker = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour):
    linear = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in (int(colour[i : i + 2], 16) for i in (1, 3, 5)))
    )
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_contrast_is_that_of_wcag():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's example


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
@pytest.mark.parametrize("text", ["ink", "faint", "accent", "good", "bad"])
def test_text_is_readable_on_the_page_and_on_its_panels(text, scheme):
    for behind in ("ground", "panel"):
        assert contrast(COLOURS[text][scheme], COLOURS[behind][scheme]) >= 4.5


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
@pytest.mark.parametrize("colour", SERIES)
def test_a_line_stands_out_from_its_background(colour, scheme):
    assert contrast(value(colour, scheme), COLOURS["ground"][scheme]) >= 3


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_a_higher_value_stands_out_more(scheme):
    ground = COLOURS["ground"][scheme]
    ratios = [contrast(value(colour, scheme), ground) for _, colour in SEQUENTIAL]

    assert ratios == sorted(ratios)


def test_every_colour_and_its_band_is_a_property_of_the_style_sheet():
    sheet = style_sheet()

    for colour in SERIES:
        for name in (colour, band(colour)):
            assert sheet.count(name.removeprefix("var(").removesuffix(")") + ":") == 3
