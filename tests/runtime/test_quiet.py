from __future__ import annotations

import subprocess
import sys

from runtime.quiet import QuietConfig, Watch, processors_busy_elsewhere, throttle_count


def watch(busy=0.0, throttles=(0,)):
    counts = iter([*throttles, *[throttles[-1]] * 10])
    return Watch(QuietConfig(0.05, 0.2), lambda: busy, lambda: next(counts))


def test_a_quiet_machine_gives_no_finding():
    quiet = watch()

    assert quiet.disturbances(10.0) == []
    assert quiet.disturbances(10.4) == []


def test_a_control_that_drifts_either_way_is_found_with_both_numbers():
    for now in (10.6, 9.4):
        drifting = watch()
        drifting.disturbances(10.0)

        (line,) = drifting.disturbances(now)

        assert f"{now:.3f} ms" in line
        assert "10.000 ms" in line


def test_a_measurement_that_goes_on_is_compared_with_its_own_beginning():
    resumed = Watch(QuietConfig(0.05, 0.2), lambda: 0.0, lambda: 0, control_ms=8.0)

    assert "+25.0%" in resumed.disturbances(10.0)[0]


def test_the_load_of_others_is_found():
    (line,) = watch(busy=1.0).disturbances(10.0)

    assert "1.0 processors" in line


def test_a_throttle_is_told_once():
    throttling = watch(throttles=(3, 5, 5))

    assert "throttled 2 times" in throttling.disturbances(10.0)[0]
    assert throttling.disturbances(10.0) == []


def test_a_busy_process_is_seen_by_the_real_probe():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            busy = max(processors_busy_elsewhere(0.3) for _ in range(5))
        finally:
            process.kill()

    assert busy > 0.3
    assert throttle_count() >= 0
