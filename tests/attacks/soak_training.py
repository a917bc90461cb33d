"""Train for many epochs and watch the memory of the process.

usage: python -m tests.attacks.soak_training [--epochs 2000] [--curve FILE]

Prints, as JSON, the resident memory after the first quarter of the epochs and at the end. FILE gets
a line for each epoch as it goes: the epoch, seconds since the start, and the memory in KiB.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.places import ROOT
from tests.support.small_corpus import settings, write_corpus

WARM_UP = 0.25  # share of the epochs
SHARE = 0.1  # of the samples, whose median is taken at each end
NOWHERE = Path(os.devnull)
LONGEST_LINE = 2**16  # bytes of a history
OPTIONS = (
    "train.noise=0.2",
    "train.tempo=0.1",
    "train.halving_factor=1",
    "train.save_minutes=0.01",
)


def resident(process: int) -> int:
    """Resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def epochs_done(history: Path) -> int:
    """How many epochs a history has, by its last line."""
    if not history.exists():
        return 0
    with history.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE))
        lines = file.read().splitlines()
    return int(json.loads(lines[-1])["epoch"]) if lines else 0


def soak(root: Path, epochs: int, curve: Path = NOWHERE) -> dict[str, Any]:
    """Train a tiny network, and compare the memory after warming up with that at the end."""
    run, words = root / "run", settings(write_corpus(root / "corpus"), *OPTIONS)
    command = [sys.executable, "-m", "bayes_asr", "train", "conf/base.yaml", *words]
    command += [f"--set=train.epochs={epochs}", f"--out={run}"]
    samples: list[int] = []
    done, begin = 0, time.monotonic()
    with (
        subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process,
        curve.open("w", buffering=1) as drawn,
    ):
        while process.poll() is None:
            time.sleep(0.05)
            before, done = done, epochs_done(run / "history.jsonl")
            if before < done < epochs:  # in the last one it frees what it has
                memory = resident(process.pid)
                print(done, round(time.monotonic() - begin, 1), memory >> 10, file=drawn)
                samples += [memory] if done >= WARM_UP * epochs else []
    assert process.returncode == 0, f"status {process.returncode}"
    count = max(1, round(SHARE * len(samples)))
    first, last = statistics.median(samples[:count]), statistics.median(samples[-count:])
    return {
        "epochs": epochs,
        "minutes": round((time.monotonic() - begin) / 60, 1),
        "samples": len(samples),
        "MiB_after_warm_up": first / 2**20,
        "MiB_at_the_end": last / 2**20,
        "growth_per_cent": 100 * (last / first - 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--curve", type=Path, default=NOWHERE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        print(json.dumps(soak(Path(folder), options.epochs, options.curve), indent=1))
