"""What several tests of `nas` are given."""

import bz2
import pickle

import pytest

from nas.search_space import NAS_BENCH_201


def _trial(dataset, epochs, percent, latency_s):
    """One training, as NATS-Bench's `ResultsCount.state_dict` has it."""
    splits = {"cifar10-valid": ("x-valid", "ori-test"), "cifar10": ("ori-test",)}
    names = splits.get(dataset, ("x-valid", "x-test", "ori-test"))
    last = epochs - 1
    return {
        "name": "synthetic",
        "net_state_dict": None,
        "train_acc1es": {last: 99.0},
        "train_acc5es": None,
        "train_losses": {last: 0.1},
        "train_times": None,
        "arch_config": {},
        "params": 1.0,
        "flop": 1.0,
        "seed": 777,
        "epochs": epochs,
        "latency": [latency_s],
        "eval_names": list(names),
        "eval_acc1es": {f"{n}@{last}": percent + 10 * (n != "x-valid") for n in names},
        "eval_losses": {f"{n}@{last}": 0.5 for n in names},
        "eval_times": {},
    }


@pytest.fixture
def write_cell():
    """Write a cell of a synthetic archive: validation `percent`, test ten more, 12 epochs half."""

    def write(folder, index, percent=50.0, latency_s=0.01, **changes):
        datasets = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120")
        cell = {
            str(epochs): {
                "arch_index": index,
                "arch_str": NAS_BENCH_201.strings[index],
                "all_results": {
                    (name, 777): _trial(name, epochs, share * percent, latency_s)
                    for name in datasets
                },
                "dataset_seed": {name: [777] for name in datasets},
                "clear_net_done": True,
                **changes,
            }
            for epochs, share in ((12, 0.5), (200, 1.0))
        }
        content = bz2.compress(pickle.dumps(cell, 4))
        (folder / f"{index:06d}.pickle.pbz2").write_bytes(content)

    return write


@pytest.fixture(scope="session")
def meta_content():
    meta = {"meta_archs": list(NAS_BENCH_201.strings), "total_archs": NAS_BENCH_201.size}
    return bz2.compress(pickle.dumps(meta, 4))


@pytest.fixture
def archive_folder(tmp_path, write_cell, meta_content):
    """A synthetic archive of cells 3 and 4."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "meta.pickle.pbz2").write_bytes(meta_content)
    write_cell(folder, 3, percent=40.0, latency_s=0.012)
    write_cell(folder, 4, percent=60.0, latency_s=0.024)
    return folder
