"""What `edgenas` finds by the entry points of this package."""

import edgenas.__main__ as console
import nas.measure.command
import nas.search.command
from edgenas_core.files.keyed_table import read_csv_table
from nas.spaces.nas_bench_201.plugin import SPACE

QUICK = (
    *("board=here", "dataset=imagenet16", "networks=2", "repeats=0", "on_disturbance=flag"),
    *(
        "timing.samples=3",
        "timing.settle_s=0.01",
        "tolerance=20000",
    ),
)
"""A test machine is not quiet; this is no measurement."""


def test_the_command_is_listed_and_run(in_process):
    assert (
        "  map        find the time that is left on a busy board\n"
        in (in_process(console.main, ["edgenas", "--help"])[1])
    )
    words = ["tasks=xavier", "configurations=[RC4,RC8]", "bound=mean"]

    status, printed, error = in_process(console.main, ["edgenas", "map", *words])

    assert (status, error) == (0, "")
    assert "T=37.1ms" in printed


def test_networks_are_measured_with_weights_that_are_streamed(in_process, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # the command sets it; what was there comes back
    words = [*QUICK, "scenario=small_memory", f"out={tmp_path}"]

    status, _, error = in_process(nas.measure.command.main, ["measure", *words])

    assert status == 0, error
    (path,) = tmp_path.glob("*_ms.csv")
    (column,) = read_csv_table(path, SPACE).columns
    assert column == "here/torch/fp32/b1|ram:1000000"


def test_a_search_takes_the_latency_of_several_devices(in_process, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (
        "latency=mapped", "latency.left=[xeon-emerald-rapids/onnxruntime/fp32/b1 2ms]", "T=0.8ms",
        "device=h200/torch-graph/fp32/b1", "reward=constrained", "budget=40",
    )  # fmt: skip

    status, printed, error = in_process(nas.search.command.main, ["search", *words])

    assert status == 0, error
    assert "h200/torch-graph/fp32/b1 (0.8 ms) or xeon-emerald-rapids" in " ".join(printed.split())
