"""What Frigate loads: a .tflite file of uint8 pixels, and its labels."""

import numpy as np
import pytest
import torch
from torch import nn

from nas.export.frigate import write_frigate
from nas.fit.data.image_set import Images, ImageSet

pytest.importorskip("litert_torch")


def test_frigates_calls_give_the_networks_probabilities(tmp_path):
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415 - an extra

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
    ).eval()
    split = Images(np.zeros((3, 8, 8, 3), np.uint8), np.arange(3))
    names, mean, sd = ("cat", "dog", "a fox"), (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
    images = ImageSet("set", "set", names, split, split, split, mean, sd, "0", ())
    write_frigate(tmp_path, network, images, 32, 2.0)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 224, 224, 3), np.uint8)

    # as frigate/data_processing/real_time/custom_classification.py does
    interpreter = Interpreter(model_path=str(tmp_path / "frigate" / "model.tflite"), num_threads=2)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], pixels)
    interpreter.invoke()
    res = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]

    small = nn.functional.interpolate(
        torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), (32, 32), mode="bilinear"
    )
    mean, sd = (255 * torch.tensor(each).view(1, 3, 1, 1) for each in (images.mean, images.sd))
    with torch.no_grad():
        expected = (network((small - mean) / sd) / 2).softmax(1)[0].numpy()
    assert res / res.sum(axis=0) == pytest.approx(expected, abs=1e-4)
    labels = (tmp_path / "frigate" / "labelmap.txt").read_text().splitlines()
    assert labels == ["cat", "dog", "a fox"]
