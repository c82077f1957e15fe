"""`export=true`: a search that ends with the files for the board."""

import json

from searching import only_run


def test_a_search_on_tables_exports_its_answer_as_untrained(search_here, tmp_path):
    finished = search_here(tmp_path, "T=17ms", "budget=30", "reward=constrained", "export=true")

    assert finished.returncode == 0, finished.stderr
    folder = only_run(tmp_path)
    summary = json.loads((folder / "summary.json").read_text())
    record = json.loads((folder / "export" / "export.json").read_text())
    assert record["architecture"]["arch"] in {summary[name]["arch"] for name in ("best", "optimum")}
    assert not record["trained"]
    (row,) = [line for line in finished.stdout.splitlines() if line.startswith("network.onnx ")]
    assert row.split()[:2] == ["network.onnx", "fp32"]
    assert "untrained" in row
    assert "measured" in row
