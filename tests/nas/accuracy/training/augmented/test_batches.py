"""Images of several splits, gathered by their positions."""

import torch

from nas.accuracy.training.augmented.batches import DeviceImages


def test_resident_images_are_those_of_the_memory_maps(brightness):
    splits = [brightness.train, brightness.valid]
    streamed, resident = (DeviceImages(splits, torch.device("cpu")) for _ in range(2))
    resident._upload()
    which = torch.tensor([259, 0, 199, 200])

    for content, expected in zip(resident.gather(which), streamed.gather(which), strict=True):
        assert torch.equal(content, expected)
    assert streamed.gather(which)[1][0] == brightness.valid.labels[-1]
