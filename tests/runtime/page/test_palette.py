import pytest

from runtime.page.palette import (
    COLOURS,
    SEQUENTIAL,
    SERIES,
    band,
    contrast,
    style_sheet,
)

LIGHT, DARK = 0, 1


def value(colour, scheme):
    return COLOURS[colour.removeprefix("var(--").removesuffix(")")][scheme]


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
