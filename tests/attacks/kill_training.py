"""Kill a short training at random moments, resume it until it is finished, and compare.

usage: python -m tests.attacks.kill_training [--kills 100] [--seed 1]

Each trial is killed by SIGKILL once or more often. Its networks, history, optimizer and
log-likelihoods must be bit for bit those of a run that was not killed, no file may ever be partial
under its name, and nothing may be left over. Prints what was found as JSON; fails at the first
difference, and keeps that run.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.train.runs import checkpoint
from tests.support.places import CONF
from tests.support.small_corpus import settings, write_corpus

OPTIONS = ("train.epochs=4", "train.noise=0.2", "train.tempo=0.1", "model.layers=2")
SAVES = ("train.save_minutes=0", "train.save_minutes=10")  # after each batch, and after each epoch
TIMES = ("seconds", "frames_per_second")
AGAIN = 0.4  # share of the resumed processes that are killed as well


def start(words: list[str], said: Path) -> int:
    """Run the command line in a child of this process, which has torch already; returns its id."""
    child = os.fork()
    if child:
        return child
    screen = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(screen, 1)
    os.dup2(screen, 2)
    status = 70
    try:
        status = main(words)
    finally:
        os._exit(status)


def killed(child: int, delay: float) -> bool:
    """Kill a child after some seconds; False if it had ended, which must be with status 0."""
    time.sleep(delay)
    os.kill(child, 9)  # harmless where it has ended: it is not yet waited for
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -9), f"status {status}"
    return status == -9


def ended(child: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"status {status}"


def check_complete(run: Path) -> Counter[str]:
    """Read whatever is there under a final name; count what a kill left."""
    for path in run.glob("[!.]*.pt"):
        checkpoint.read(path)
    for name in ("state.json", "env.json"):
        if (run / name).exists():
            json.loads((run / name).read_text())
    if (run / "history.jsonl").exists():
        assert all(json.loads(line) for line in (run / "history.jsonl").read_text().splitlines())
    if (run / "config.yaml").exists():
        load([run / "config.yaml"])
    return Counter(
        partial=bool(list(run.glob(".*.partial*"))),
        unfinished=(run / "unfinished.pt").exists(),
        before_the_first_checkpoint=not (run / "last.pt").exists(),
    )


def digest(value: Any) -> str:
    """A hash of nested plain values and tensors, without times."""
    if isinstance(value, torch.Tensor):
        content = value.numpy().tobytes() + str(value.dtype).encode()
    elif isinstance(value, Mapping):
        content = "".join(f"{k}:{digest(v)};" for k, v in value.items() if k not in TIMES).encode()
    elif isinstance(value, list | tuple):
        content = ",".join(map(digest, value)).encode()
    else:
        content = repr(value).encode()
    return hashlib.sha256(content).hexdigest()


def results(run: Path) -> dict[str, str]:
    """Hashes of all that a run has learnt and computed."""
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    last = checkpoint.read(run / "last.pt")
    last.pop("config")  # it holds save_minutes
    return {
        "best.pt": hashlib.sha256((run / "best.pt").read_bytes()).hexdigest(),
        "last.pt": digest(last),
        "history.jsonl": digest(history),
        "loglikes.ark": hashlib.sha256((run / "forward/loglikes.ark").read_bytes()).hexdigest(),
    }


def finish(train: list[str], run: Path, said: Path) -> dict[str, str]:
    """Train to the end, compute log-likelihoods, and see that nothing is left over."""
    ended(start(train, said))
    assert not list(run.glob(".*")), "left over"
    assert not (run / "unfinished.pt").exists()
    ended(start(["forward", str(run), "--on", "test", f"--out={run / 'forward'}"], said))
    return results(run)


def kill_many(root: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill trainings until there were `kills` trials; what was seen, or AssertionError."""
    rng = random.Random(seed)
    corpus = write_corpus(root / "corpus")
    commands, times, expected = [], [], {}
    warm = ["train", str(CONF / "base.yaml"), *settings(corpus, "train.epochs=1")]
    assert main([*warm, f"--out={root / 'warm'}"]) == 0  # imports what is imported late
    for number, save in enumerate(SAVES):
        command = ["train", str(CONF / "base.yaml"), *settings(corpus, *OPTIONS, save)]
        begin, run = time.monotonic(), root / f"undisturbed{number}"
        ended(start([*command, f"--out={run}"], root / "said"))
        times.append(time.monotonic() - begin)
        found = finish([*command, f"--out={run}"], run, root / "said")
        expected = expected or found
        assert found == expected, "how often it is saved must not matter"
        commands.append(command)
    seen, trials, total = Counter[str](), 0, 0
    while trials < kills:
        number = trials % len(SAVES)
        run = root / "killed"
        shutil.rmtree(run, ignore_errors=True)
        command = [*commands[number], f"--out={run}"]
        hits = 0
        while not hits or rng.random() < AGAIN:
            if not killed(start(command, root / "said"), rng.uniform(0, times[number])):
                break
            hits += 1
            seen += check_complete(run)
        if not hits:
            continue  # it was finished before: not a trial
        found = finish(command, run, root / "said")
        differing = [name for name in expected if found[name] != expected[name]]
        assert not differing, f"trial {trials}: {differing} differ"
        trials, total = trials + 1, total + hits
    return {"trials": trials, "identical": trials, "kills": total, "left": dict(seen)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="trials, each killed at least once")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="killed-"))
    begin = time.monotonic()
    report = kill_many(folder, options.kills, options.seed)
    shutil.rmtree(folder)
    print(json.dumps(report | {"seconds": round(time.monotonic() - begin, 1)}, indent=1))
    sys.exit(0)
