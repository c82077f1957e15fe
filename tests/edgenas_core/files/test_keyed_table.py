"""The open CSV layout: what is read, what is refused, and when a file is read again."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgenas_core.files.keyed_table import (
    data_folder,
    latency_files,
    left_out,
    parse_csv_table,
    read_csv_table,
    write_csv_table,
)
from edgenas_core.types.errors import UserError
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

STRINGS = NAS_BENCH_201.strings


def write(path, lines, head="index,arch,ms"):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def whole(tmp_path, number=lambda i: i / 4, name="nb201_ms.csv"):
    return write(tmp_path / name, [f"{i},{text},{number(i)}" for i, text in enumerate(STRINGS)])


def few(tmp_path, *lines, head="index,arch,ms"):
    return write(tmp_path / "few_ms.csv", lines, head)


def test_rows_come_in_official_order_whatever_their_order_in_the_file(tmp_path):
    path = few(tmp_path, f"{STRINGS[7]},7.5", f"{STRINGS[2]},2.5", head="arch,ms")

    column = read_csv_table(path, SPACE).column("ms")

    assert column[7] == 7.5
    assert column[2] == 2.5
    assert np.isnan(np.delete(column, [2, 7])).all()


TABLE = [["arch", "my-board", "b"], [STRINGS[7], "7.5", "1"], [STRINGS[2], "1234.25", ""]]


def dialect(rows, delimiter, encoding="utf-8", end="\n"):
    lines = [delimiter.join(f'"{f}"' if delimiter in f else f for f in row) for row in rows]
    return (end.join(lines) + end).encode(encoding)


def with_decimal_commas(rows):
    return [[field.replace(".", ",") for field in row] for row in rows]


VECTORS = [str(NAS_BENCH_201.rows[number].tolist()) for number in (7, 2)]


@pytest.mark.parametrize(
    "content",
    [
        dialect(TABLE, ","),
        dialect(TABLE, ";"),
        dialect(with_decimal_commas(TABLE), ";", end="\r\n"),
        dialect(with_decimal_commas(TABLE), "\t", "utf-16"),
        dialect(TABLE, ",", "utf-8-sig"),
        dialect(TABLE, ", "),
        dialect([["Architecture", *TABLE[0][1:]], *TABLE[1:]], ","),
        dialect([["index", *TABLE[0][1:]], ["7", *TABLE[1][1:]], ["2", *TABLE[2][1:]]], ","),
        dialect([TABLE[0], [VECTORS[0], *TABLE[1][1:]], [VECTORS[1], *TABLE[2][1:]]], ","),
        dialect(
            [
                ["Device", "arch", "latency_ms"],
                ["my-board", STRINGS[7], "7.5"],
                ["b", STRINGS[7], "1"],
                ["my-board", STRINGS[2], "1234.25"],
            ],
            ",",
        ),
    ],
)
@pytest.mark.parametrize("name", ["mine.csv", "mine.CSV", "mine.tsv"])
def test_a_table_in_the_dialects_that_people_write_is_read(tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes(content)

    table = read_csv_table(path, SPACE)

    assert latency_files(tmp_path, SPACE) == {"my-board": path, "b": path}
    assert left_out(tmp_path, SPACE) == {}
    mine, other = table.column("my-board"), table.column("b")
    assert (mine[7], mine[2], other[7]) == (7.5, 1234.25, 1)
    assert (np.isfinite(mine).sum(), np.isfinite(other).sum()) == (2, 1)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("mine.csv", b"network,ms\na,1\n", "'network'"),
        ("mine.csv", b"\xff\x00\x81", "UTF-8"),
        ("mine.csv", b"", "empty"),
        ("mine.csv", b"arch,board,flops\n", "'flops'"),
        ("._mine.csv", b"\0\0", "hidden"),
        ("mine.xlsx", b"PK", "CSV"),
        ("mine.csv.gz", b"\x1f\x8b", "unpack"),
    ],
)
def test_a_file_that_is_not_read_is_named_with_the_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)

    ((path, why),) = left_out(tmp_path, SPACE).items()

    assert path == tmp_path / name
    assert reason in why
    assert "accuracy" not in latency_files(tmp_path, SPACE)


def test_an_empty_field_is_not_measured(tmp_path):
    path = few(tmp_path, f"0,{STRINGS[0]},", f"1,{STRINGS[1]},3.5")

    assert np.isnan(read_csv_table(path, SPACE).column("ms")[0])
    assert read_csv_table(path, SPACE).column("ms")[1] == 3.5


def test_a_column_that_is_not_there_is_a_key_error(tmp_path):
    table = read_csv_table(few(tmp_path, f"0,{STRINGS[0]},1"), SPACE)

    with pytest.raises(KeyError, match="watts"):
        table.column("watts")


def bad(lines, head="index,arch,ms", end=b""):
    return "\n".join([head, *lines]).encode() + b"\n" + end


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (bad([f"0,{STRINGS[0]},fast"]), "fast"),
        (bad([f"0,{STRINGS[0]},1", f"1,{STRINGS[1]}"]), "corrupt"),
        (bad([f"0,{STRINGS[0]},1", f"1,{STRINGS[1][:20]}"]), "corrupt"),
        (bad([f"0,{STRINGS[0]},1"], end=b"1,\xff\xfe,2\n"), "corrupt"),
        (bad([f"0,{STRINGS[0]},nan"]), r"ms of .*avg_pool.* is nan"),
        (bad([f"0,{STRINGS[0]},inf"]), "is inf"),
        (bad([f"0,{STRINGS[0]},1", f"0,{STRINGS[0]},1"]), "once"),
        (bad(["0,|nor_conv_9x9~0|,1"]), "line 2: .*nor_conv_9x9"),
        (bad(["", f"0,{STRINGS[0]},1", "", "0,|nor_conv_9x9~0|,1"]), "line 5: .*nor_conv_9x9"),
        (bad([f"1,{STRINGS[0]},1"]), "'index'"),
        (bad([f",{STRINGS[0]},1"]), "'index'"),
        (bad([",,"]), "line 2"),
        (bad([], head="number_of,cell,ms"), "'arch'"),
        (bad([], head="index,arch,ms,ms"), "twice"),
        (bad([], head="arch,device,ms,watts"), "'device'.*watts"),
        (
            bad([f"{STRINGS[0]},a,1", f"{STRINGS[0]},a,2"], head="arch,device,ms"),
            "line 3.*second time",
        ),
        (bad([], head=""), "empty"),
        (b"", "empty"),
        (b"\xff\xfe\x00\x80", "'arch'"),
        (b"PK\x03\x04\x00\x00", "'arch'"),
        (b"arch,ms,\xe9t\xe9\n", "UTF-8"),
        (bad([f"{STRINGS[0]};1;2"], head="arch;ms"), "line 2 has 3 fields"),
        (bad(["", f"{STRINGS[0]};1", "", "a;1;2"], head="arch;ms"), "line 5 has 3 fields"),
        (bad(["", "", f"{STRINGS[0]};1", "no;1"], head="arch;ms"), "line 5: .*no"),
        (bad(["", "1;2", "", "99999;1"], head="index;ms"), "line 5: index '99999'"),
        (b"index;ms\n15625;1\n", "15625.*15,624"),
    ],
)
def test_a_wrong_file_is_a_user_error_of_one_line_that_names_it(tmp_path, content, named):
    path = tmp_path / "few_ms.csv"
    path.write_bytes(content)

    with pytest.raises(UserError, match=named) as caught:
        read_csv_table(path, SPACE)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "nowhere.csv"])
def test_a_folder_and_a_missing_file_are_user_errors(tmp_path, name):
    with pytest.raises(UserError, match=name or "regular"):
        read_csv_table(tmp_path / name, SPACE)


@pytest.mark.parametrize("rows", [0, 15_624])
def test_a_table_named_for_the_whole_space_has_to_cover_it(tmp_path, rows):
    lines = [f"{i},{text},1" for i, text in enumerate(STRINGS[:rows])]

    with pytest.raises(UserError, match=f"{rows:,} .* 15,625"):
        read_csv_table(write(tmp_path / "nb201_ms.csv", lines), SPACE)


def test_a_table_of_the_whole_space_cut_in_the_middle_of_a_line_is_a_user_error(tmp_path):
    path = whole(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(UserError, match=r"nb201_ms\.csv"):
        read_csv_table(path, SPACE)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_table_of_the_whole_space_cut_inside_its_last_number_is_a_user_error(tmp_path, lost):
    path = whole(tmp_path, number=lambda _: 12.5)
    path.write_bytes(path.read_bytes()[:-lost])

    with pytest.raises(UserError, match="truncated"):
        read_csv_table(path, SPACE)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = few(tmp_path, f"{STRINGS[0]},1.5", head="arch,ms")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    table = read_csv_table(path, SPACE)

    assert table.columns == ("ms",)
    assert table.column("ms")[0] == 1.5


def test_a_file_is_read_once_and_for_all(tmp_path):
    path = few(tmp_path, f"0,{STRINGS[0]},1.5")

    table = read_csv_table(path, SPACE)

    assert read_csv_table(path, SPACE) is table
    assert not table.column("ms").flags.writeable


def test_a_file_that_was_replaced_is_read_again(tmp_path):
    path = few(tmp_path, f"0,{STRINGS[0]},1.5")
    read_csv_table(path, SPACE)
    few(tmp_path, f"0,{STRINGS[0]},9.5")
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # on a coarse clock, too

    assert read_csv_table(path, SPACE).column("ms")[0] == 9.5


def test_nas_data_names_the_folder_and_without_it_it_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("NAS_DATA", raising=False)
    assert data_folder() == tmp_path / "edgenas"
    monkeypatch.setenv("NAS_DATA", "")
    assert data_folder() == tmp_path / "edgenas"
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("NAS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="NAS_DATA="):
        data_folder()


def test_latency_columns_are_those_of_every_table_but_accuracy_and_energy(tmp_path):
    write(tmp_path / "nb201_accuracy.csv", [], "arch,cifar10_test")
    write(tmp_path / "nb201_energy_mj.csv", [], "arch,board")
    write(tmp_path / "notes.csv", [], "who,what")
    write(tmp_path / "my-board.journal.csv", [], "arch,median_ms")
    a = write(tmp_path / "a_ms.csv", [], "index,arch,phone,gpu")
    b = write(tmp_path / "b.csv", [], "arch,tpu")

    assert latency_files(tmp_path, SPACE) == {"phone": a, "gpu": a, "tpu": b}


@pytest.mark.parametrize(
    ("name", "column"), [("energy.csv", "board"), ("b.csv", "board-mJ"), ("pi_joules.csv", "board")]
)
def test_a_table_that_speaks_of_energy_is_not_read_as_latencies(tmp_path, name, column):
    write(tmp_path / name, [], f"arch,{column}")

    with pytest.raises(UserError, match=r"\*_mj\.csv"):
        latency_files(tmp_path, SPACE)


def test_one_latency_column_in_two_files_is_a_user_error(tmp_path):
    write(tmp_path / "a_ms.csv", [], "arch,phone")
    write(tmp_path / "b_ms.csv", [], "arch,phone")

    with pytest.raises(UserError, match=r"'phone' .*a_ms\.csv .*b_ms\.csv"):
        latency_files(tmp_path, SPACE)


@pytest.fixture
def columns():
    numbers = np.random.default_rng(0).lognormal(size=(2, NAS_BENCH_201.size))
    numbers[0, 5:] = np.nan
    numbers[1, 9:] = np.nan
    return {"gpu": numbers[0], "phone": numbers[1]}


@pytest.mark.parametrize(("name", "rows"), [("nb201_ms.csv", 15_625), ("some_ms.csv", 9)])
def test_every_number_that_is_written_reads_back_exactly(tmp_path, columns, name, rows):
    path = tmp_path / name

    write_csv_table(path, SPACE, columns)

    table = parse_csv_table(path, SPACE)
    assert table.columns == ("gpu", "phone")
    np.testing.assert_array_equal(table.values, list(columns.values()))
    assert len(path.read_text().splitlines()) == 1 + rows


def test_a_column_name_with_a_comma_survives(tmp_path, columns):
    write_csv_table(tmp_path / "some_ms.csv", SPACE, {"gpu, hot": columns["gpu"]})

    assert parse_csv_table(tmp_path / "some_ms.csv", SPACE).columns == ("gpu, hot",)


class Digits:
    """Architectures without numbers: `3-0-1`, whose last choice counts only if the first is above 0."""

    name = "digits"
    num_choices = (4, 2, 3)

    def normal(self, architectures):
        switched_on = architectures[..., :1] > 0
        return np.where([True, True, False] | switched_on, architectures, 0)

    def text(self, architecture):
        return "-".join(map(str, architecture))

    def parse(self, text):
        try:
            return np.array([int(word) for word in text.split("-")], np.int64)
        except ValueError as error:
            raise UserError(f"architecture {text!r} is not like 3-0-1") from error


def test_a_table_of_a_space_without_numbers_keeps_the_order_of_its_file(tmp_path):
    rows = np.array([[3, 0, 1], [0, 1, 0], [1, 1, 2]])
    path = tmp_path / "board_ms.csv"
    write_csv_table(path, Digits(), {"board": np.array([1.5, np.nan, 2.5])}, rows)

    table = read_csv_table(path, Digits())

    np.testing.assert_array_equal(table.architectures, rows[[0, 2]])
    np.testing.assert_array_equal(table.column("board"), [1.5, 2.5])


def test_two_texts_of_one_architecture_are_one_too_many(tmp_path):
    path = write(tmp_path / "board_ms.csv", ["0-1-0,1", "0-1-2,1"], "arch,board")

    with pytest.raises(UserError, match="once"):
        read_csv_table(path, Digits())


def test_a_table_belongs_to_the_space_of_its_first_architecture(tmp_path):
    ours = few(tmp_path, f"{STRINGS[7]},7.5", head="arch,phone")
    theirs = write(tmp_path / "theirs_ms.csv", ["3-0-1,1"], "arch,phone")

    assert latency_files(tmp_path, SPACE) == {"phone": ours}
    assert latency_files(tmp_path, Digits()) == {"phone": theirs}


def test_a_table_whose_origin_names_another_space_is_of_that_space(tmp_path):
    path = write(tmp_path / "board_ms.csv", ["3-0-1,1"], "arch,board")
    path.with_suffix(".json").write_text('{"space": "other"}')

    assert latency_files(tmp_path, Digits()) == {}


def test_a_table_in_the_folder_of_a_space_is_of_that_space(tmp_path):
    (tmp_path / "digits").mkdir()
    path = write(tmp_path / "digits/board_ms.csv", [], "arch,board")

    assert latency_files(tmp_path, Digits()) == {"board": path}
    assert latency_files(tmp_path, SPACE) == {}


def test_one_file_is_cached_for_each_space_that_reads_it(tmp_path):
    path = write(tmp_path / "board_ms.csv", ["3-0-1,1"], "arch,board")
    read_csv_table(path, Digits())

    with pytest.raises(UserError, match="line 2"):
        read_csv_table(path, SPACE)


CELLS = st.sampled_from(
    [
        *STRINGS[:3],
        "0",
        "7",
        "99999999999999999999",
        "[0, 1, 2, 3, 4, 0]",
        "1.5",
        "1,5",
        "",
        "x",
        "nan",
        '"',
    ]
)
HEADS = st.sampled_from(["arch", "Arch", "index", "device", "ms", "board (us)", "", "accuracy"])


@given(
    st.lists(HEADS, min_size=1, max_size=4),
    st.lists(st.lists(CELLS, max_size=4), max_size=4),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["utf-8", "utf-16", "latin-1"]),
    st.binary(max_size=4),
)
@settings(max_examples=500, deadline=None)
def test_any_file_is_read_or_refused_with_its_name_and_nothing_is_lost(  # noqa: PLR0917 - of hypothesis
    tmp_path_factory, names, rows, delimiter, encoding, end
):
    folder = tmp_path_factory.mktemp("tables")
    lines = [delimiter.join(row) for row in (names, *rows)]
    path = folder / "mine.csv"
    path.write_bytes("\n".join(lines).encode(encoding) + b"\n" + end)

    refused, error, columns = left_out(folder, SPACE), "", ()
    try:
        columns = read_csv_table(path, SPACE).columns
    except UserError as raised:
        error = str(raised)

    assert "\n" not in error
    if error:
        assert str(path) in error
    else:
        assert path not in refused or "accuracy" in columns


@pytest.mark.parametrize("name", ["bad.csv", "bad_ms.csv"])
def test_a_control_character_in_a_header_stops_no_other_table(tmp_path, name):
    cell = NAS_BENCH_201.strings[0]
    (tmp_path / "good_ms.csv").write_text(f"arch,good\n{cell},5\n")
    (tmp_path / name).write_text(f"arch,my\x01board\n{cell},5\n")

    assert latency_files(tmp_path, SPACE) == {"good": tmp_path / "good_ms.csv"}
    assert "control character" in left_out(tmp_path, SPACE)[tmp_path / name]
