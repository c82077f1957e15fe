"""Figures of results pages are those of the files beside them, or follow from their own tables."""

import csv
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from nas.report.answer import _CERTAIN

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def rows_of(name):
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def text_of(page):
    return " ".join((RESULTS / page).read_text(encoding="utf-8").replace("**", "").split())


def tables_of(path):
    """Rows of cells of each table of a page."""
    tables, last = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            if not last.startswith("|"):
                tables.append([])
            tables[-1].append([cell.strip(" *") for cell in line.strip().strip("|").split("|")])
        last = line
    return tables


def policy(name):
    """Device, reward, searches that arrived as a share, gaps of rnn, reinforce, uniform, and what settled."""
    for row in rows_of(name)[1:]:
        rnn, reinforce, difference = float(row[7]), float(row[8]), float(row[9].split(" ")[0])
        arrived = float(row[5].split("%")[0]) / 100
        yield row[0], row[2], arrived, rnn, reinforce, reinforce - difference, row[11]


@pytest.mark.parametrize(
    ("name", "seeds", "arrived", "gaps"),
    [("policy.csv", 16, 541, (0.20, 0.04, 0.23)), ("policy_kept.csv", 8, 241, (0.44, 0.13, 0.40))],
)
def test_the_policy_page_and_the_readme_have_the_means_of_all_settings(name, seeds, arrived, gaps):
    settings = [*policy(name)]
    text = text_of("policy.md")
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("**", "")

    assert sum(round(setting[2] * seeds) for setting in settings) == arrived
    assert f"{arrived} of {seeds * len(settings)} searches" in text
    means = np.mean([setting[3:6] for setting in settings], axis=0)
    assert tuple(means) == pytest.approx(gaps, abs=0.006)
    assert all(f"{gap:.2f}" in text for gap in gaps)
    never = sum(each[1] == "proposed" and each[6] == "never" for each in settings)
    assert f"in {never} of 12 settings" in text or f"in {never} the policy never settles" in text
    if name == "policy_kept.csv":  # devices that were not used for development
        assert all(f"{gap:.2f} points" in readme for gap in gaps)


def test_devices_that_the_policy_had_not_seen_have_the_means_of_their_six_settings():
    table = next(
        each for each in tables_of(RESULTS / "policy.md") if "of 48 searches" in each[0][1]
    )
    settings = [*policy("policy_kept.csv")]
    devices = [*dict.fromkeys(setting[0] for setting in settings)]

    for device, (_, arrived, rnn, reinforce) in zip(devices, table[2:], strict=True):
        own = [setting for setting in settings if setting[0] == device]
        assert sum(round(setting[2] * 8) for setting in own) == int(arrived)
        means = np.mean([setting[3:5] for setting in own], axis=0)
        assert (float(rnn), float(reinforce)) == pytest.approx(tuple(means), abs=0.0051)
    others = [setting[4] for setting in settings if "snapdragon-855" not in setting[0]]
    assert f"Snapdragon 855 the gap is {np.mean(others):.2f}" in text_of("policy.md")


def test_rows_of_the_pages_are_those_of_their_files():
    pages = {
        "transfer.md": ("transfer_10.csv", "transfer_intervals.csv"),
        "thesis.md": ("thesis_reinforce.csv",),
        "which-searcher.md": ("which_searcher_titan_x.csv", "which_searcher_pixel_6a.csv"),
    }
    for page, names in pages.items():
        for name in names:
            # The pages describe a method in other words than the files: its numbers are compared.
            stored = [set(row) for row in rows_of(name)[1:]]
            shown = [
                row
                for table in tables_of(RESULTS / page)
                for row in table[2:]
                if any(len(set(row[1:]) & each) >= len(row) - 2 for each in stored)
            ]
            assert len(shown) >= 4, (page, name)


def test_transfer_says_what_its_intervals_are():
    rows = rows_of("transfer_intervals.csv")[1:]
    inside = [float(row[5].rstrip("%")) for row in rows if row[0] != "mean"]
    text = text_of("transfer.md")

    held = f"{sum(each >= 90 for each in inside)} of {len(inside)} devices"
    assert f"on {held}, and {min(inside):.1f} % on the other" in text


def test_staged_searches_of_images_are_the_means_of_their_seeds():
    found, device = {}, ""
    for row in rows_of("own_images_staged.csv")[1:]:
        device = row[0] or device
        found.setdefault(device, []).append(float(row[4].split(" ")[0]))
    table = next(each for each in tables_of(RESULTS / "own-images.md") if each[2][0] in found)

    for row in table[2:]:
        gaps = found[row[0]]
        assert float(row[5].split("*")[0].split(" ")[0]) == pytest.approx(np.mean(gaps), abs=0.006)
        assert row[6] == f"{sum(gap <= 0.4 for gap in gaps)} of {len(gaps)}"


def test_the_ratios_of_freed_memory_are_those_of_the_rates_beside_them():
    table = next(each for each in tables_of(RESULTS / "performance.md") if "passes" in each[0])

    for row in table[2:]:
        for cell in row[1:]:
            without, kept, ratio = map(float, re.findall(r"[\d.]+", cell))
            assert ratio == pytest.approx(kept / without, abs=0.006)


def test_one_queue_takes_longer_than_one_launch_by_what_the_page_says():
    page = ROOT / "runtime" / "benchmarks" / "results" / "many-networks.md"
    table = next(each for each in tables_of(page) if "fork-join" in each[0] and "Q-S" in each[0])
    longer = [100 * (float(row[1]) / float(row[5]) - 1) for row in table[2:]]

    said = f"{min(longer):.0f} to {max(longer):.0f} % more than one launch"
    assert said in " ".join(page.read_text(encoding="utf-8").split())


TABLES = ROOT / "nas" / "spaces" / "nas_bench_201" / "measured"
PAIRS = {
    "EPYC VM, another network": ("epyc-vm-torch-fp32-b1", "beside-nb201"),
    "EPYC VM, memory hog, held": ("epyc-vm-torch-fp32-b1", "hog-memory-fine-lock-limit-1000"),
    "EPYC VM, memory hog": ("epyc-vm-torch-fp32-b1", "hog-memory"),
    "H200, ResNet-50": ("h200-torch-graph-fp32-b1", "beside-resnet50"),
    "H200, memory hog": ("h200-torch-graph-fp32-b1", "hog-gpu-memory"),
    "H200, memory hog, held": (
        "h200-torch-graph-fp32-b1",
        "hog-gpu-memory-budget-limit-953674",
    ),
}


def median_ms_by_index(table):
    with gzip.open(TABLES / f"{table}.csv.gz", "rt", encoding="utf-8") as file:
        return {row["index"]: float(row["median_ms"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", PAIRS)
def test_times_under_load_that_confirm_a_limit_are_those_of_the_bundled_tables(name):
    alone, beside = PAIRS[name]
    alone_ms, beside_ms = median_ms_by_index(alone), median_ms_by_index(f"{alone}-{beside}")
    quotients = np.array([alone_ms[row] / beside_ms[row] for row in alone_ms.keys() & beside_ms])
    pages = tables_of(RESULTS / "measuring.md")
    (row,) = (row for table in pages for row in table if row[0] == name)

    quantiles = [f"{value:.2f}" for value in np.quantile(quotients, [0.5, 0.95, 1])]
    assert row[1:] == [str(len(quotients)), *quantiles, str((quotients > _CERTAIN).sum())]
