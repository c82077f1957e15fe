"""A board with a fault, for `soak.py`: the real agent, behind a program that spoils what it says.

cmd://python -m benchmarks.soak_board <fault> <seed>; the words after these are the agent's interpreter.
`reboots` ends after a while, `lies` repeats and changes bytes of answers, `slow` holds them back.
"""

import os
import random
import subprocess
import sys
import threading
import time


def main(fault, seed, *command):
    chance = random.Random(f"{seed} {os.getpid()}")  # noqa: S311 - no secret
    agent = subprocess.Popen(command, stdout=subprocess.PIPE)  # its input is ours
    if fault == "reboots" and chance.random() < 0.5:
        after = threading.Timer(chance.uniform(0.5, 30), agent.kill)
        after.daemon = True
        after.start()
    while data := os.read(agent.stdout.fileno(), 1 << 16):
        if fault == "slow":
            time.sleep(chance.uniform(0, 0.1))
        elif fault == "lies" and chance.random() < 0.1:
            place = chance.randrange(len(data))
            data = chance.choice(
                [2 * data, data[:place], data[:place] + b"\xf5edgenas" + data[place:]]
            )
        try:
            os.write(1, data)
        except BrokenPipeError:
            agent.kill()
    return agent.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
