"""The public data of MobileNetV3 as in Once-for-All."""

import pickle
import zipfile

import numpy as np
import pytest

from edgenas_core.files.keyed_table import read_csv_table
from edgenas_core.types.errors import UserError
from edgenas_mobilenet_v3.plugin import SPACE
from edgenas_mobilenet_v3.public import MobileNetV3Data
from nas.data.convert import import_files

ENTRIES = [
    {"ks": [3] * 20, "e": [4] * 20, "d": [2, 2, 2, 2, side % 3 + 2], "r": [side]}
    for side in (160, 164, 168)
]


def save(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))
    return path


def files(tmp_path, entries=ENTRIES, ms=(10.0, 11.5, 12.0)):
    (tmp_path / "data").mkdir(exist_ok=True)
    return [
        save(tmp_path / "ofa_archs.pt", {"dataset": "imagenet", "arch": entries}),
        save(tmp_path / "titan_rtx_64.pt", list(ms)),
    ]


def imported(tmp_path, paths):
    return list(import_files(SPACE, paths, tmp_path / "data"))


def test_lists_become_a_table_of_the_space_in_a_folder_of_its_name(tmp_path):
    imported(tmp_path, files(tmp_path))

    path = tmp_path / "data" / "mobilenet_v3" / "ofa_mbv3_latency_ms.csv"
    table = read_csv_table(path, SPACE)
    assert table.columns == ("help-titan-rtx-64",)
    np.testing.assert_array_equal(table.values, [[10.0, 11.5, 12.0]])
    assert SPACE.text(table.architectures[1]).startswith("r164 k3e4-k3e4 ")


def test_a_second_import_keeps_the_columns_and_rows_of_the_first(tmp_path):
    imported(tmp_path, files(tmp_path))
    index, _ = files(tmp_path, [*ENTRIES[1:], {**ENTRIES[0], "r": [224]}])

    imported(tmp_path, [index, save(tmp_path / "v100_64.pt", [1.0, 2.0, 3.0])])

    path = tmp_path / "data" / "mobilenet_v3" / "ofa_mbv3_latency_ms.csv"
    table = read_csv_table(path, SPACE)
    sides = [SPACE.text(row)[:4] for row in table.architectures]
    times = dict(zip(sides, table.values.T.tolist(), strict=True))
    assert table.columns == ("help-titan-rtx-64", "help-v100-64")
    assert times["r164"] == [11.5, 1.0]
    assert np.isnan(times["r160"][1])
    assert np.isnan(times["r224"][0])


@pytest.mark.parametrize(
    ("entries", "ms", "error"),
    [
        (ENTRIES, [1.0], "latencies of 3 networks"),
        (ENTRIES, [1.0, -2.0, 3.0], "not a positive number"),
        (ENTRIES, [1.0, "x", 3.0], "not a positive number"),
        ([{"ks": [3]}], [1.0], "entry 0 is no network"),
        ([{**ENTRIES[0], "r": [225]}], [1.0], "entry 0 is no network"),
    ],
)
def test_what_is_not_as_published_is_refused(tmp_path, entries, ms, error):
    with pytest.raises(UserError, match=error):
        imported(tmp_path, files(tmp_path, entries, ms))


def test_a_list_without_its_architectures_or_another_file_is_refused(tmp_path):
    index, list_ = files(tmp_path)
    with pytest.raises(UserError, match=r"give HELP's ofa_archs\.pt"):
        imported(tmp_path, [list_])
    with pytest.raises(UserError, match=r"give HELP's ofa_archs\.pt"):
        imported(tmp_path, [index])
    list_.write_bytes(b"no archive")
    with pytest.raises(UserError, match="torch saved"):
        imported(tmp_path, [index, list_])


class Evil:
    def __reduce__(self):
        return (open, ("evil", "w"))


def test_code_in_a_list_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index, _ = files(tmp_path)

    with pytest.raises(UserError, match=r"evil\.pt"):
        imported(tmp_path, [index, save(tmp_path / "evil.pt", [Evil()])])
    assert not (tmp_path / "evil").exists()


def test_files_are_pinned_to_a_commit_and_a_hash():
    for file in MobileNetV3Data.files:
        assert len(file.address.split("/")[2]) == 40
        assert len(file.sha256) == 64
