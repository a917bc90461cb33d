"""Train for many epochs and watch the memory of the process.

usage: python tests/soak_training.py [--epochs 2000]

Prints, as JSON, the resident memory after the first quarter of the epochs and at the end.
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

from small_corpus import settings, write_corpus

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 0.25  # share of the epochs
SHARE = 0.1  # of the samples, whose median is taken at each end
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


def soak(root: Path, epochs: int) -> dict[str, Any]:
    """Train a tiny network, and compare the memory after warming up with that at the end."""
    run, words = root / "run", settings(write_corpus(root / "corpus"), *OPTIONS)
    command = [sys.executable, "-m", "bayes_asr", "train", "conf/base.yaml", *words]
    command += [f"--set=train.epochs={epochs}", f"--out={run}"]
    samples: list[int] = []
    done = 0
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            time.sleep(0.05)
            history = run / "history.jsonl"
            done = len(history.read_bytes().splitlines()) if history.exists() else 0
            if WARM_UP * epochs <= done < epochs:  # then it imports and frees nothing any more
                samples.append(resident(process.pid))
    assert process.returncode == 0, f"status {process.returncode}"
    count = max(1, round(SHARE * len(samples)))
    before, after = statistics.median(samples[:count]), statistics.median(samples[-count:])
    return {
        "epochs": epochs,
        "samples": len(samples),
        "MiB_after_warm_up": before / 2**20,
        "MiB_at_the_end": after / 2**20,
        "growth_per_cent": 100 * (after / before - 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2000)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        print(json.dumps(soak(Path(folder), parser.parse_args().epochs), indent=1))
