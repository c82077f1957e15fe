"""`edgenas_runtime.run`, the entry point of new users."""

import math
import re
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
import torch
from torch import nn

import edgenas_runtime
from edgenas_runtime.scheduling.chain import Request
from edgenas_runtime.scheduling.policies.rules import OneLane

DOCUMENT = Path(__file__).parents[2] / "docs" / "run-many-networks.md"


def small(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()


def test_modules_in_results_and_a_report_out():
    models, x = [small(0), small(1)], torch.randn(1, 3, 8, 8)

    report = edgenas_runtime.run(models, inputs=[x, x], inferences=3, deadline_ms=1000, gpu=False)

    with torch.inference_mode():
        for model, output in zip(models, report.outputs, strict=True):
            torch.testing.assert_close(output, model(x))
    assert report.inferences == 6
    assert report.misses == 0
    assert all(0 < one.p50_ms <= one.p99_ms <= one.worst_ms for one in report.latencies)
    assert all(0 <= share <= 1 for share in report.lane_use.values())
    assert "makespan" in str(report)


def test_two_models_and_a_deadline_are_enough():
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Conv2d(3, 4, 3, stride=8), nn.AdaptiveAvgPool2d(1)).eval()
    small_images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(1352, 3)).eval()
    values = nn.Sequential(nn.Linear(7, 2)).eval()

    report = edgenas_runtime.run(
        [wide, small_images, values], policy="earliest_finish", deadline_ms=17, gpu=False
    )

    assert report.assumed_shapes == ((1, 3, 224, 224), (1, 1, 28, 28), (1, 7))
    assert "1x3x224x224, 1x1x28x28, 1x7" in str(report)
    assert report.outputs[1].shape == (1, 3)


def test_a_model_that_takes_no_image_is_named():
    with pytest.raises(ValueError, match=r"model 0.*Conv3d"):
        edgenas_runtime.run([nn.Conv3d(1, 1, 1).eval()])


class Counting(nn.Module):
    """Its output depends on the number of its calls."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


def test_an_output_that_is_not_that_of_eager_torch_is_refused():
    with pytest.raises(ValueError, match=r"model 0 \(Counting\)"):
        edgenas_runtime.run([Counting().eval()], [torch.rand(2, 4)], inferences=1, gpu=False)


def test_two_threads_may_run_networks_at_once():
    failed = []

    def run(seed):
        try:
            edgenas_runtime.run([small(seed)], [torch.randn(1, 3, 8, 8)], inferences=1, gpu=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test fails
            failed.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failed


def test_frames_arrive_at_their_rate():
    x = torch.randn(1, 3, 8, 8)

    report = edgenas_runtime.run([small(0)], [x], inferences=3, fps=100, rule="fused", gpu=False)

    assert [request.arrival_ms for request in report.schedule.requests] == [0, 10, 20]
    assert report.makespan_ms > 20


def test_arrivals_of_ones_own_are_served():
    x = torch.randn(1, 3, 8, 8)
    asked = [
        *(Request(0, 0.5 * i**1.5) for i in range(10)),
        *(Request(1, 2.0 * i, deadline_ms=1000) for i in range(10)),
    ]

    report = edgenas_runtime.run(
        [small(0), small(1)], [x, x], requests=asked, rule="fused", gpu=False
    )

    assert report.schedule.requests == tuple(asked)
    assert report.inferences == 20
    assert report.misses == 0


def test_a_network_of_which_nothing_is_asked_has_no_output():
    x = torch.randn(1, 3, 8, 8)

    report = edgenas_runtime.run([small(0), small(1)], [x, x], requests=[Request(1)], gpu=False)

    assert isinstance(report.outputs[0], CancelledError)
    assert isinstance(report.outputs[1], torch.Tensor)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"requests": [Request(3)]}, "network 3.* 1 networks"),
        ({"requests": []}, "requests"),
        ({"requests": [Request(0)], "fps": 3}, "requests.*fps"),
        ({"policy": "best"}, "policy='best'.*earliest_finish"),
        ({"rule": "cell"}, "rule='cell'.*layer"),
        ({"policy": None}, "policy=None.*earliest_finish"),
        ({"policy": OneLane}, "earliest_finish.*`place`"),
        ({"policy": OneLane(7)}, r"OneLane\(lane=7\).* job 0 of .*lane 7"),
        ({"policy": OneLane(-1)}, "lane -1"),
        ({"fps": 0}, "fps=0 "),
        ({"fps": math.nan}, "fps=nan"),
        ({"fps": "20"}, "fps='20'"),
        ({"fps": 1e-320}, "fps=1e-320"),
        ({"deadline_ms": math.nan}, "deadline_ms=nan"),
        ({"inferences": 2.5}, "inferences=2.5"),
        ({"models": nn.ReLU()}, r"models is a ReLU.*models=\[...\]"),
        ({"inputs": torch.zeros(1, 3, 8, 8)}, r"inputs is a Tensor.*inputs=\[...\]"),
        ({"models": [None]}, "model 0 is None.*Module"),
        ({"inputs": [None]}, "input 0 .*tensor"),
        ({"inputs": [torch.zeros(0, 3, 8, 8)]}, "input 0 .*tensor"),
        ({"inputs": [torch.zeros(1, 4, 8, 8)]}, r"model 0 .*\(1, 4, 8, 8\)"),
        ({"inputs": [torch.zeros(1, 3, 8, 8).double()]}, r"model 0 .*\(1, 3, 8, 8\)"),
        ({"inferences": 0}, "inferences=0 "),
        ({"inputs": []}, "1 models and 0 inputs"),
        ({"models": [nn.ReLU()]}, r"model 0 .*\.eval\(\)"),
    ],
)
def test_an_invalid_argument_is_named_with_the_way_out(arguments, named):
    given = {"models": [small(0)], "inputs": [torch.zeros(1, 3, 8, 8)], **arguments}
    with pytest.raises(ValueError, match=named):
        edgenas_runtime.run(**given, gpu=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_reported_with_the_way_out():
    with pytest.raises(RuntimeError, match="gpu=False"):
        edgenas_runtime.run([small(0)], [torch.zeros(1, 3, 8, 8)], gpu=True)


def test_the_example_of_the_documentation_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 15

    exec(compile(example, DOCUMENT.name, "exec"), {})  # noqa: S102 - our own documentation

    assert "makespan" in capsys.readouterr().out
