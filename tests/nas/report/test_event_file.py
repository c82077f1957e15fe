"""Event files: what torch's writer would have written, without torch."""

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from torch.utils.tensorboard import SummaryWriter

from nas.report.event_file import EventFile


def events_of(folder):
    """What the files of a folder say, in their order; not when."""
    events = []
    for path in sorted(folder.glob("events*"), key=lambda path: int(path.name.split(".")[-1])):
        for event in LegacyEventFileLoader(str(path)).Load():
            if event.file_version and event.HasField("source_metadata"):
                continue  # the beginning of a file
            event.wall_time = 0
            events.append(event)
    return events


def test_it_says_what_torchs_writer_says(tmp_path):
    with SummaryWriter(str(tmp_path / "torch"), purge_step=3) as theirs:
        theirs.add_text("sources", "a table")
        theirs.add_scalar("a", 0.5, 4)

    ours = EventFile(tmp_path / "ours", done=2)
    ours.text("sources", "a table")
    ours.scalar("a", 0.5, 4)
    ours.close()

    assert events_of(tmp_path / "ours") == events_of(tmp_path / "torch")
