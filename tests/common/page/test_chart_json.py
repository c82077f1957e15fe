import json

import numpy as np
import plotly.graph_objects as go

from common.page.chart_json import chart_json


def test_arrays_and_numpy_numbers_are_lists_and_numbers():
    value = {"x": np.arange(3), "y": np.array([[0.5], [1.0]]), "n": np.int64(3), "b": np.bool_(1)}

    assert chart_json(value) == '{"x":[0,1,2],"y":[[0.5],[1]],"n":3,"b":true}'


def test_a_float_has_seven_digits_and_an_integer_all_of_its_own():
    assert chart_json([1 / 3, 123456789.4, 123456789]) == "[0.3333333,123456800,123456789]"


def test_what_is_no_number_is_null():
    assert chart_json([np.nan, np.inf, -np.inf, np.array([np.nan])]) == "[null,null,null,[null]]"


def test_it_cannot_end_a_script_element():
    text = chart_json({"</script>": "<!-- & \u2028"})

    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!-- & \u2028"}


def test_plotly_objects_are_taken_with_the_palettes_colours():
    trace = go.Scatter(x=np.array([1, 2]), y=[3, 4], line={"color": "var(--blue)"})

    assert json.loads(chart_json([trace])) == [
        {"x": [1, 2], "y": [3, 4], "line": {"color": "var(--blue)"}, "type": "scatter"}
    ]
