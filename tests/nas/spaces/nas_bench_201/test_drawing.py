from xml.etree.ElementTree import tostring

from nas.spaces.nas_bench_201.drawing import draw_cell
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201


def drawing(text):
    return draw_cell("Cell", NAS_BENCH_201.parse(text))


def test_every_edge_is_drawn_and_labelled_and_named_in_the_description():
    cell = drawing(
        "|skip_connect~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|none~0|nor_conv_1x1~1|none~2|"
    )
    svg = tostring(cell.svg, encoding="unicode")

    assert svg.count("<path") == len(EDGES)
    for name in ("skip", "conv 3x3", "avg pool 3x3", "conv 1x1", "none", "input", "output"):
        assert f">{name}</text>" in svg
    assert "0 to 1 skip_connect" in cell.description
    assert "2 to 3 none" in cell.description


def test_only_edges_on_a_path_from_input_to_output_are_thick():
    cell = drawing("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|skip_connect~1|nor_conv_3x3~2|")
    svg = tostring(cell.svg, encoding="unicode")

    assert svg.count('stroke-width="4"') == 2
    assert svg.count('stroke-dasharray="6 5"') == 1  # from node 2, which nothing reaches
    assert svg.count('stroke-dasharray="1 6"') == 3
