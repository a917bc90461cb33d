"""Commands in a row that are killed at random moments, and given again from the first.

usage: python -m tests.attacks.kill_chains [--kills 25] [--seed 1] [CHAIN ...]

Chains are gmm steps, sequence training, search, and a whole recipe by run.sh with two processes.
However often they were killed, by SIGKILL to all of their processes, all files must be those of a
chain that nobody disturbed, byte for byte but for times. Prints what was seen; fails otherwise.
"""

import argparse
import json
import os
import random
import shlex
import signal
import time
from contextlib import suppress
from pathlib import Path

from bayes_asr.cli import main as run_verb
from tests.attacks.every_verb import restore
from tests.attacks.failing_calls import see
from tests.attacks.interference import Seen

AGAIN = 0.4  # share of the chains given again that are killed as well
GMM = """\
gmm mono data/train lang out/mono --passes 3 --gaussians 12 --nj 2
gmm deltas data/train lang out/mono out/tri --passes 2 --leaves 8 --gaussians 12
gmm lda-mllt data/train lang out/tri out/lda --passes 3 --leaves 8 --gaussians 12 --dim 2
gmm sat data/train lang out/lda out/sat --passes 2 --leaves 8 --gaussians 12
gmm align data/dev lang out/sat out/ali
gmm chain-tree data/train lang out/mono out/chain --leaves 8
"""
SEQUENCE = """\
denlats run --graph exp/graph --out out/denlats --nj 2
train lattices.yaml --out out/smbr --set train.epochs=3 train.save_minutes=0
"""
SEARCH = "search corpus.yaml --space space.yaml --out out --trials 3 --set train.save_minutes=0\n"


RECIPE = """\
run timit --corpus corpus --features mfcc --nj 2 --nproc 2 --out out\
 --set train.epochs=3 --set model.units=8 --set model.layers=1
"""
CHAINS = {  # the place of every_verb, and commands there
    "gmm": ("mixtures", GMM),
    "sequence training": ("tasks", SEQUENCE),
    "search": ("run", SEARCH),
    "run.sh": ("timit", RECIPE),
}


def start(chain: str, lab: Path) -> int:
    """Give the commands of a chain in a child with a process group of its own; returns its id."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setsid()
        os.chdir(lab)
        screen = os.open(lab.with_name("said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(screen, 1)
        os.dup2(screen, 2)
        commands = map(shlex.split, CHAINS[chain][1].splitlines())
        status = next(filter(None, map(run_verb, commands)), 0)
    finally:
        os._exit(status)


def end(child: int) -> None:
    """Wait for a chain, which must succeed."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"status {status}"


def kill(child: int, delay: float) -> bool:
    """Kill a chain and what it has started after some seconds; False if it had ended, by itself."""
    time.sleep(delay)
    with suppress(ProcessLookupError):  # before it has its group
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), f"status {status}"
    return status != 0


def kill_many(chain: str, kills: int, seed: int) -> dict[str, object]:
    """Kill a chain until it was killed so often; what was seen, or AssertionError."""
    rng, place = random.Random(f"{chain} {seed}"), CHAINS[chain][0]
    expected, seconds = list[Seen](), 0.0
    for _ in range(2):
        lab, begun = restore(place), time.monotonic()
        end(start(chain, lab))
        seconds = time.monotonic() - begun
        expected.append(see(lab / "out"))
    alike = {name for name, content in expected[0].items() if expected[1].get(name) == content}
    trials = total = 0
    while total < kills:
        lab, hits = restore(place), 0
        while not hits or rng.random() < AGAIN:
            if not kill(start(chain, lab), rng.uniform(0, seconds)):
                break
            hits += 1
        end(start(chain, lab))
        found = see(lab / "out")
        odd = sorted(n for n in alike if found.get(n) != expected[0][n])
        odd += sorted(found.keys() ^ expected[0].keys())
        assert not odd, f"{chain}, trial {trials}, killed {hits} times: {odd}"
        trials, total = trials + 1, total + hits
        print(f"{chain}: killed {total} times in {trials} trials, the same bytes", flush=True)
    unlike = sorted(expected[0].keys() - alike)
    return {"kills": total, "trials": trials, "files": len(alike), "never twice the same": unlike}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=25, help="of each chain")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("chains", nargs="*", default=[*CHAINS], metavar="CHAIN")
    options = parser.parse_args()
    for name in options.chains:
        print(name, json.dumps(kill_many(name, options.kills, options.seed)), flush=True)
