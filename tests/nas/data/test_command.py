"""The command as users start it: one line and exit status 2, never a traceback."""

import os
import sys

import commands
import numpy as np
import pytest
import torch

from edgenas_core.files.keyed_table import data_folder, write_csv_table
from edgenas_core.types.errors import UserError
from nas.data.command import main
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("NAS_DATA", str(folder))
    return folder


def status_of(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["verify"], "nas.data space=nas_bench_201 fetch"),
        (["list", "space=nowhere"], "space=nowhere"),
        (["import", "nowhere.pt"], "nowhere.pt: No such file"),
        (["import", "archive.tar"], "archive.tar"),
        (["fetch", "--mirror", "nowhere"], "--mirror nowhere"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_2(capsys, arguments, reason):
    assert status_of(*arguments) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("edgenas: ")
    assert reason in line


@pytest.mark.parametrize("arguments", [[], ["sing"], ["import"], ["fetch", "--to"]])
def test_a_command_that_does_not_exist_is_status_2(capsys, arguments):
    assert status_of(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "python -m nas.data" in line


def test_import_fills_a_folder_of_tables_that_is_not_there_yet(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NAS_DATA", str(tmp_path / "new" / "tables"))

    assert status_of("import", "nowhere.pt") == 2
    assert "nowhere.pt" in capsys.readouterr().err
    assert data_folder(to_fill=True) == tmp_path / "new" / "tables"
    with pytest.raises(UserError, match="NAS_DATA"):
        data_folder()


def test_verify_is_status_2_if_any_table_is_wrong(folder, capsys):
    write_csv_table(folder / "a_ms.csv", SPACE, {"phone": np.ones(NAS_BENCH_201.size)})
    main(["verify"])
    write_csv_table(folder / "b_ms.csv", SPACE, {"gpu": np.zeros(NAS_BENCH_201.size)})

    assert status_of("verify") == 2
    assert "FAIL  b_ms.csv" in capsys.readouterr().out


def test_list_shows_the_accuracies_and_the_devices(folder, capsys):
    write_csv_table(
        folder / "nb201_accuracy.csv", SPACE, {"cifar100_test": np.ones(NAS_BENCH_201.size)}
    )

    write_csv_table(folder / "mine_ms.csv", SPACE, {"my-phone": np.ones(NAS_BENCH_201.size)})

    main(["list"])

    shown = capsys.readouterr().out
    assert "cifar100" in shown
    assert "my-phone" in shown
    assert "RAM=" in shown


def test_list_without_data_says_how_to_get_it(capsys):
    main(["list"])

    assert "`python -m nas.data fetch`" in capsys.readouterr().out


def test_a_folder_can_be_named(folder, tmp_path, capsys):
    write_csv_table(tmp_path / "a_ms.csv", SPACE, {"phone": np.ones(NAS_BENCH_201.size)})

    main(["verify", "--in", str(tmp_path)])

    assert "ok    a_ms.csv" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    torch.save([1.5] * NAS_BENCH_201.size, tmp_path / "board.pt")

    assert status_of("import", tmp_path / "board.pt", "--to", tmp_path / "file" / "x") == 2
    assert str(tmp_path / "file") in capsys.readouterr().err.splitlines()[-1]


def test_the_real_command_ends_without_a_traceback():
    words = [sys.executable, "-m", "nas.data", "verify"]
    ended = commands.run(words, env={**os.environ, "NAS_DATA": "/nowhere"})

    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert "NAS_DATA=/nowhere" in line


def test_list_says_which_public_files_are_there(folder, capsys):
    files = SPACE.public_data().files
    main(["list"])
    out = capsys.readouterr().out
    assert f"; 0 of {len(files)} public files" in out
    assert "nas.data" in out

    raw = folder / "raw"
    for file in files:
        path = raw / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    main(["list"])
    out = capsys.readouterr().out
    assert f"; {len(files)} of {len(files)} public files" in out
    assert "nas.data" not in out
