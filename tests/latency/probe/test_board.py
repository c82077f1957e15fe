"""A board and all that can go wrong with it; every agent here is a real process."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from edgenas_core.inference.formats.tracing import torchscript_bytes
from latency.probe.address import Connect, command_of
from latency.probe.board import BoardError, LiveBoard, Patience, UnrunnableError
from latency.probe.connection import (
    Connection,
    EndedError,
    GarbledError,
    LostConnectionError,
    SilentError,
    agent_source,
)
from latency.probe.settings import BoardPrecision, Runtime

IN_MEASURE = "        loaded = self._load(network)\n"


def test_a_network_is_timed_in_turns_with_the_control(connect, small):
    board = connect()

    timed = board.measure(small)

    assert timed.ms.shape == timed.control_ms.shape == (3,)
    assert (timed.ms > 0).all()
    assert board.control_ms > 0
    assert board.identity.version == onnxruntime.__version__
    assert board.facts["processors"] == os.cpu_count()


@pytest.mark.slow
def test_torch_alone_is_sent_torchscript(settings, lines):
    import torch  # noqa: PLC0415 - most tests need no torch

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.BatchNorm2d(3))
    content = {"torchscript": torchscript_bytes(module, [torch.zeros(settings.shape)])}
    board = LiveBoard(
        "cmd://",
        lambda: Connection("cmd://", command_of("cmd://", Connect()), 120.0),
        settings=replace(settings, runtime=Runtime.torch),
        control=content.__getitem__,
        patience=Patience(silence_s=60.0, tries=1),
        tell=lines.append,
    )

    assert (board.measure(content[board.takes]).ms > 0).all()
    board.close()


def test_a_login_banner_before_and_prints_in_between_do_no_harm(connect, small, faulty):
    chatty = faulty(IN_MEASURE, f"{IN_MEASURE}        print('libraries print')\n")
    noisy = chatty.replace(
        b"self._send(encode(self._ans", b"self._send(b'\\xf5!\\n' + encode(self._ans"
    )

    board = connect("cmd://sh -c 'echo Welcome to board; exec \"$@\"' sh", sources=(noisy,))

    assert (board.measure(small).ms > 0).all()


def test_an_answer_given_twice_never_counts_for_the_next_network(connect, small, faulty, lines):
    line = "self._send(encode(self._answer(*message)))"
    twice = "self._send(2 * encode(self._answer(*message)) if message[1] else encode(self._answer(*message)))"
    board = connect(sources=(faulty(line, twice), agent_source()))

    assert (board.measure(small).ms > 0).all()

    (line,) = lines
    assert "request 2 came when 3" in line


def test_an_agent_that_is_killed_while_it_measures_is_started_again(
    connect, small, faulty, lines, tmp_path
):
    once = (
        f"        if not os.path.exists({str(tmp_path / 'killed')!r}):\n"
        f"            open({str(tmp_path / 'killed')!r}, 'w').close()\n"
        "            os.kill(os.getpid(), 9)\n"
    )
    board = connect(sources=(faulty(IN_MEASURE, once + IN_MEASURE),))

    timed = board.measure(small)

    assert (timed.ms > 0).all()
    (line,) = lines
    assert "signal 9; trying" in line


def test_a_pulled_cable_is_silence_and_ends_by_the_time_limit(connect, small, faulty, lines):
    stopped = faulty(IN_MEASURE, "        os.kill(os.getpid(), 19)\n" + IN_MEASURE)
    board = connect(
        sources=(stopped, agent_source()), patience=Patience(silence_s=4.0, tries=2, backoff_s=0.0)
    )

    assert (board.measure(small).ms > 0).all()
    assert "silent for 4 s" in lines[0]


def test_signs_of_life_keep_a_long_task_from_being_silence(faulty):
    long = faulty(
        "        runtimes, broken = find_runtimes(self._doing)\n",
        '        signs = [(time.sleep(0.5), self._send(encode({"type": "alive"})))[1] for _ in range(4)]\n'
        '        runtimes, broken = {}, {"signs": len(signs)}\n',
    )
    connection = Connection("cmd://", command_of("cmd://", Connect()), 120.0, lambda: long)

    assert connection.request({"type": "hello"}, silence_s=1.5)["broken"] == {"signs": 4}
    connection.close()


def test_a_slow_import_is_told_and_named_where_it_ends_in_silence(
    connect, faulty, lines, monkeypatch
):
    monkeypatch.setattr("latency.probe.connection._FIRST_TOLD_S", 1.0)
    slow = faulty("import onnxruntime as o;", "import time; time.sleep(30);")
    slow = slow.replace(b"_LONGEST_IMPORT_S = 600.0", b"_LONGEST_IMPORT_S = 3.0")
    slow = slow.replace(b"timeout=_LONGEST_IMPORT_S", b"timeout=60")

    with pytest.raises(SilentError, match=r"silent for 2 s, importing onnxruntime"):
        connect(sources=(slow,), patience=Patience(silence_s=2.0, tries=1))
    assert "cmd://: importing onnxruntime, 1 s so far" in lines


def test_signs_of_life_without_end_are_no_answer(faulty, monkeypatch):
    monkeypatch.setattr("latency.probe.connection.LONGEST", 0.02)
    endless = faulty(
        '            "runtimes": runtimes,',
        '            "runtimes": [self._send(encode({"type": "alive"})) for _ in iter(int, 1)],',
    )
    connection = Connection("cmd://", command_of("cmd://", Connect()), 20.0, lambda: endless)

    with pytest.raises(SilentError, match=r"^cmd://: alive"):
        connection.request({"type": "hello"}, silence_s=20.0)


def test_any_answer_is_times_a_refusal_or_one_line(connect):
    """Numbers without end, of another type, absurd ones; parts that are missing or too many."""
    values = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.sampled_from(("", "a\nb", "\x1b[")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ms", "warm_up_calls", "is_stable"]), inner)
        ),
        max_leaves=6,
    )
    names = st.sampled_from(["type", "network", "control", "state", "layers", "message"])
    board = connect()

    @settings_of(max_examples=60)
    @given(st.dictionaries(names, values | st.just("measured")))
    def check(answer):
        try:
            timed = board._timed(answer, b"", 60.0)
        except (BoardError, UnrunnableError) as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017 - both ways are right
        else:
            assert (timed.ms > 0).all()

    check()


def test_an_agent_that_dies_of_a_network_each_time_makes_that_network_unrunnable(
    connect, small, faulty, lines
):
    board = connect(sources=(faulty(IN_MEASURE, "        os.kill(os.getpid(), 9)\n"),))

    with pytest.raises(UnrunnableError, match=r"3 tries"):
        board.measure(small)
    assert len(lines) == 2


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="limits memory by util-linux's prlimit")
def test_a_network_that_does_not_fit_into_memory_is_refused_and_the_next_is_timed(
    connect, small, huge
):
    board = connect(f"cmd://prlimit --as={3 << 30}", patience=Patience(silence_s=120.0, tries=1))

    with pytest.raises(UnrunnableError, match=r"(?i)alloc"):
        board.measure(huge)
    assert (board.measure(small).ms > 0).all()


def test_a_file_that_is_no_network_is_refused_and_the_next_is_timed(connect, small):
    board = connect()

    for content in (b"", b"not a network", b"\x08\x07" * 50):
        with pytest.raises(UnrunnableError, match=r"(?i)invalid|fail|protobuf"):
            board.measure(content)
    assert (board.measure(small).ms > 0).all()


def test_a_board_that_does_not_come_back_is_told_in_one_line(connect, small, faulty):
    board = connect(
        "cmd://",
        sources=(
            faulty(IN_MEASURE, "        os.kill(os.getpid(), 9)\n" + IN_MEASURE),
            b"raise SystemExit('power is off')",
        ),
    )

    with pytest.raises(LostConnectionError, match=r"^cmd://: .*power is off.* 3 tries") as raised:
        board.measure(small)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            (
                '            "state": board_state(),\n        }\n\n    def _prepare',
                '            "state": 1 / 0,\n        }\n\n    def _prepare',
            ),
            "ZeroDivisionError",
        ),
        (
            (
                "    _find_what_isolation_hides()\n        agent",
                "    raise OSError('closed')\n        agent",
            ),
            "closed",
        ),
        (("import zlib\n", "import zlib_of_another_system\n"), "zlib_of_another_system"),
    ],
)
def test_an_error_of_the_agent_reaches_the_user_at_once(connect, faulty, fault, says):
    began_s = time.monotonic()

    with pytest.raises((BoardError, LostConnectionError), match=f"cmd://: .*{says}") as raised:
        connect(sources=(faulty(*fault),))

    assert time.monotonic() - began_s < 60
    assert "\n" not in str(raised.value)


def test_a_board_whose_script_dies_is_told_within_a_second(tmp_path):
    script, died = tmp_path / "board.sh", tmp_path / "died"
    # a helper of it keeps its output open, as those of a board's own start scripts do
    script.write_text(
        f"head -c 30 >/dev/null; sleep 20 & echo out of memory >&2; date +%s.%N > {died}; exit 7\n"
    )
    address = f"cmd://sh {script}"

    with pytest.raises(EndedError, match=r"ended with status 7 \(out of memory\)"):
        Connection(address, command_of(address, Connect()), 60.0)

    assert time.time() - float(died.read_text()) < 1


def test_a_runtime_that_cannot_be_imported_is_told_with_its_error(connect, faulty):
    broken = faulty("import onnxruntime as o;", "import os; os.kill(os.getpid(), 4);")

    with pytest.raises(BoardError, match="onnxruntime: its import was killed by signal 4"):
        connect(sources=(broken,))


def test_layers_on_a_runtime_without_shapes_are_refused(connect, faulty, settings):
    old = faulty('versions["onnxruntime"] = version\n', 'versions["onnxruntime"] = "1.10.0"\n')

    with pytest.raises(BoardError, match=r"1\.11 .*1\.10\.0"):
        connect(sources=(old,), settings=replace(settings, layers=True))


def test_a_runtime_that_is_too_old_for_our_files_is_refused(connect, faulty):
    old = faulty('versions["onnxruntime"] = version\n', 'versions["onnxruntime"] = "1.5.2"\n')

    with pytest.raises(BoardError, match=r"onnxruntime 1\.6 or newer.*1\.5\.2"):
        connect(sources=(old,))


def test_an_old_tflite_runtime_is_refused_by_its_own_numbers(connect, faulty, settings):
    settings = replace(settings, runtime=Runtime.litert)
    stated = 'versions["onnxruntime"] = version\n'
    old = faulty(stated, 'versions["litert"] = "tflite_runtime 2.5.0"\n')
    newer = faulty(stated, 'versions["litert"] = "1.0.1"\n')  # of ai_edge_litert, which came later

    with pytest.raises(BoardError, match=r"tflite_runtime 2\.11 or newer.*2\.5\.0"):
        connect(sources=(old,), settings=settings)
    with pytest.raises(BoardError, match="litert there cannot run"):
        connect(sources=(newer,), settings=settings)


def test_times_that_cannot_have_passed_while_we_waited_are_not_used(connect, faulty):
    lying = faulty('"control": timed, "state"', '"control": {"ms": [3e4] * 10}, "state"')

    with pytest.raises(BoardError, match=r"add up to 300 s, and its answer came after .* s"):
        connect(sources=(lying,))


def test_a_hot_board_with_lower_clocks_is_the_same_board(connect, small, faulty):
    clocks = ('"highest_devfreq_hz"', '"highest_khz": {}, "highest_devfreq_hz"')
    cold, hot = (faulty(clocks[0], clocks[1].format(khz)) for khz in (["1400000"], ["600000"]))
    dies = cold.replace(
        IN_MEASURE.encode(), b"        os.kill(os.getpid(), 9)\n" + IN_MEASURE.encode()
    )

    assert (connect(sources=(dies, hot)).measure(small).ms > 0).all()


def test_a_board_that_comes_back_as_another_is_refused(connect, small, faulty):
    board = connect(
        sources=(
            faulty(IN_MEASURE, "        os.kill(os.getpid(), 9)\n" + IN_MEASURE),
            faulty(
                '"board": _read("/proc/device-tree/model")', '"board": "another" or _read("/proc")'
            ),
        )
    )

    with pytest.raises(BoardError, match=r"another"):
        board.measure(small)


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (
            ("VERSION = 2", "VERSION = 9"),
            EndedError,
            "version 2 .* 9",
        ),
        (
            ("_CHECK.pack(zlib.crc32(body) & 0xFFFFFFFF)", "_CHECK.pack(1)"),
            GarbledError,
            "checksum",
        ),
        (
            (
                "self._send(encode(self._answer(*message)))",
                "self._send(encode({'a': 1})[:20]); return",
            ),
            EndedError,
            "ended with status 0",
        ),
        (
            ('"board": _read(', '"bored": _read('),
            BoardError,
            "agent's answer",
        ),
        (
            ("start = time.perf_counter()", "start = 2 * time.perf_counter()"),
            BoardError,
            r"took -\d.* ms",
        ),
        *(
            (
                ('"control": timed, "state": board_state()', f'"control": {{"ms": {ms}}}'),
                BoardError,
                printed,
            )
            for ms, printed in (
                ("[1.0, 10**400]", "took 1000"),
                ("[1.0, True]", "took True ms"),
                ("[[1.0, 2.0]]", "took .* ms"),
                ("3.5", "agent's answer"),
            )
        ),
        (
            (
                '"control": timed, "state": board_state()',
                '"control": timed, "state": {"khz": "ab"}',
            ),
            BoardError,
            "agent's answer",
        ),
        (
            (
                "self._send(encode(self._answer(*message)))",
                "self._send(encode({'a': json.loads('[' * 90 + ']' * 90)}))",
            ),
            GarbledError,
            "request None",
        ),
        (
            (
                "body = _PREFIX.pack(VERSION, len(text), len(payload)) + text + payload",
                "text = b'[' * 99999; body = _PREFIX.pack(VERSION, len(text), 0) + text",
            ),
            GarbledError,
            "nested",
        ),
        (
            ("self._send(encode(self._answer(*message)))", "self._send(encode({}, b'a file'))"),
            GarbledError,
            "impossible lengths",
        ),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line_that_names_the_board(
    connect, faulty, fault, error, says
):
    with pytest.raises(error, match=f"^cmd://: .*{says}") as raised:
        connect(sources=(faulty(*fault),))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "fault",
    [
        (
            "self._send(encode(self._answer(*message)))",
            "self._send(encode({'half': 'a message'})[:20]); time.sleep(60)",
        ),
        ("return MAGIC + body", "return b'login: '"),
        ("self._send(encode(self._answer(*message)))", "while True: self._send(b'noise' * 99)"),
    ],
)
def test_half_a_message_a_prompt_for_a_password_and_endless_noise_end_by_the_time_limit(
    connect, faulty, fault
):
    with pytest.raises(SilentError, match=r"^cmd://: silent for 0\.3 s"):
        connect(sources=(faulty(*fault),), patience=Patience(silence_s=0.3, tries=1))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("cmd://no-such-command", "no-such-command"),
        ("cmd://sh -c 'echo no route to host >&2; exit 255'", r"255 \(no route to host\)"),
        ("cmd://sh -c 'kill -9 $$'", "signal 9"),
        ("cmd://sh -c 'echo Password: ; sleep 60'", r"silent for 2 s \(Password:\)"),
        ("cmd://sh -c yes", "silent for 2 s"),
        ("cmd://cat -", "ended with status 1"),
    ],
)
def test_a_board_that_cannot_be_reached_is_told_in_one_line_at_once(connect, address, says):
    with pytest.raises(LostConnectionError, match=f"^{address.split()[0]}.*{says}") as raised:
        connect(address, reach=Connect(python="python3", timeout_s=2.0))
    assert "\n" not in str(raised.value)


def test_a_python_without_any_runtime_is_told_with_the_way_out(connect, settings):
    bare = Path(sys.base_prefix) / "bin" / "python3"
    probe = "import importlib.util as u; print(*map(u.find_spec, ('onnxruntime', 'torch')))"
    printed = subprocess.run([bare, "-c", probe], capture_output=True, check=False)
    if printed.stdout.split() != [b"None", b"None"] or shutil.which("trtexec"):
        pytest.skip(f"{bare} has a runtime")

    with pytest.raises(BoardError, match=r"python="):
        connect(reach=Connect(python=str(bare)), settings=replace(settings, runtime=Runtime.auto))


def test_a_runtime_that_nobody_knows_is_none(connect, faulty, settings):
    strange = faulty('"runtimes": runtimes', '"runtimes": {"strange": "1.0"}')

    with pytest.raises(BoardError, match="no runtime there"):
        connect(sources=(strange,), settings=replace(settings, runtime=Runtime.auto))


def test_the_name_of_a_board_is_cut_to_what_a_file_can_be_called(connect, faulty, settings):
    endless = faulty(
        '"board": _read("/proc/device-tree/model")', '"board": "x" * 99999 or _read("")'
    )

    assert len(connect(sources=(endless,)).identity.device(settings)) < 255


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"runtime": Runtime.torch_cuda, "precision": BoardPrecision.fp16}, "fp16 .*torch-cuda"),
        ({"runtime": Runtime.onnxruntime_cuda}, "no onnxruntime-cuda .* onnxruntime"),
        ({"precision": BoardPrecision.fp16}, "fp16 .*onnxruntime"),
        ({"precision": BoardPrecision.int8, "runtime": Runtime.torch}, "int8 .*onnxruntime"),
        ({"core": 4096}, "core 4096"),
        ({"core": 0, "threads": (os.cpu_count() or 1) + 1}, r"core \d+"),
    ],
    ids=str,
)
def test_a_setting_that_the_board_cannot_meet_is_refused(connect, settings, changes, says):
    if changes.get("runtime") is Runtime.onnxruntime_cuda and (
        "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    ):
        pytest.skip("ONNX Runtime has CUDA here")
    with pytest.raises(BoardError, match=says):
        connect(settings=replace(settings, **changes))


def test_no_process_is_left_behind_even_one_that_was_stopped(connect):
    board = connect()
    os.kill(board.pid, signal.SIGSTOP)

    pid = board.pid
    board.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.fixture
def trtexec(tmp_path, monkeypatch):
    """TensorRT is not here: a stand-in with its options shows the commands, not a time."""
    tool = tmp_path / "trtexec"
    tool.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "options = dict(word[2:].split('=') for word in sys.argv[1:] if '=' in word)\n"
        "if 'onnx' in options:\n"
        "    network = open(options['onnx'], 'rb').read()\n"
        "    if b'Relu' not in network: sys.exit('[E] ModelImporter: no network')\n"
        "    open(options['saveEngine'], 'wb').write(network)\n"
        "else:\n"
        "    open(options['loadEngine']).close()\n"
        "    rows = [{'latencyMs': 1.5, 'computeMs': 1}] * int(options['iterations'])\n"
        "    json.dump(rows, open(options['exportTimes'], 'w'))\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("trtexec")
def test_trtexec_is_driven_by_its_files_from_the_oldest_python_that_is_here(
    connect, settings, small, oldest_python
):

    reach = Connect(python=oldest_python, timeout_s=120.0)
    board = connect(settings=replace(settings, runtime=Runtime.auto), reach=reach)

    assert board.identity.runtime == "tensorrt"
    assert np.array_equal(board.measure(small).ms, [1.5, 1.5, 1.5])
    with pytest.raises(UnrunnableError, match=r"1: \[E\] ModelImporter"):
        board.measure(b"no network")
