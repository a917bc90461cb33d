"""Verbs of which one call of the system fails: open, write, rename or fsync, drawn by a seed.

usage: python -m tests.attacks.failing_calls [--seed 1] [--count 1000] [--log FILE]

What stood there is then whole, old or new; what was refused was refused in one line that names a
file; the same command, given again, ends with what an undisturbed one writes, and leaves nothing.
"""

import argparse
import ctypes
import errno
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from bayes_asr.base.files import REPLACED_BY
from tests.attacks.every_verb import CALLS, command_of, habits, restore
from tests.attacks.interference import Seen, read
from tests.attacks.laboratory import Said, bayes_asr, inside
from tests.support.places import ROOT

SHIM = Path(__file__).with_suffix(".c")
KINDS = {"open": 1, "write": 2, "rename": 3, "fsync": 4}
ERRORS = {
    "open": (errno.EACCES, errno.EMFILE, errno.EIO, errno.EINTR),
    "write": (errno.ENOSPC, errno.EIO, errno.EINTR),
    "rename": (errno.ENOSPC, errno.EACCES, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EINTR),
}
ONCE = {"fold", "adapt", "combine", "import-weights"}  # refuse to replace what they have written
# Written as work goes on, or as it likes: times, positions, what is only kept to save time.
UNLIKE = {"state.json", "env.json", "config.yaml", "gmm.json", "trials.json"}
GOOD = ("answered", "refused")
STEPS = ("train", "search", "gmm")  # leave what is complete for the same command


@dataclass(frozen=True)
class Disturbance:
    """A call of the system, by its number, and the error that it ends with."""

    kind: str
    number: int
    code: int


class Calls:
    """What is preloaded into this process."""

    def __init__(self) -> None:
        """RuntimeError where it is not."""
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.failed_path.restype = ctypes.c_char_p

    def disturb(
        self, lab: Path, what: str, disturbance: Disturbance | None = None
    ) -> tuple[Said, dict[str, int], str]:
        """Run a call in a child; what it said, its calls by kind, and the file of a failed one."""
        told, report = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(told)
                with inside(lab):
                    if disturbance:
                        number = disturbance.number, disturbance.code
                        self._arm(lab, KINDS[disturbance.kind], *number)
                    else:
                        self._arm(lab, 0, 0, 0)
                    said = bayes_asr(command_of(what))
                counts = {kind: self._library.count_calls(KINDS[kind]) for kind in KINDS}
                failed = os.fsdecode(self._library.failed_path())
                os.write(report, json.dumps([astuple(said), counts, failed]).encode())
            finally:
                os._exit(0)
        os.close(report)
        with os.fdopen(told, "rb") as pipe:
            content = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert content, f"{what}: {disturbance}: status {status}"
        said, counts, failed = json.loads(content)
        return Said(*said), counts, failed

    def _arm(self, lab: Path, *numbers: int) -> None:
        self._library.arm_calls(os.fsencode(lab), *numbers)


def see(lab: Path) -> Seen:
    """What the files of a place hold, but for times, logs and the index."""
    return {
        str(path.relative_to(lab)): read(path)
        for path in sorted(lab.rglob("*"))
        if path.is_file()
        and path.suffix != ".log"
        and path.name not in UNLIKE
        and path.parent.name != "index"
    }


@cache
def undisturbed(what: str) -> tuple[Seen, Seen, dict[str, int]]:
    """The files before and after a call, and how many calls of the system it makes, by kind."""
    habits(what)  # has imported here what children would import
    lab = restore(CALLS[what])
    before = see(lab)
    said, counts, _ = Calls().disturb(lab, what)
    assert said.status == 0, said.err
    return before, see(lab), counts


def attack(what: str, disturbance: Disturbance) -> str:
    """Disturb a call once and give it again; says how it ended, or AssertionError."""
    before, new, _ = undisturbed(what)
    lab = restore(CALLS[what])
    said, _, failed = Calls().disturb(lab, what, disturbance)
    where = f"{what}: {disturbance}: {failed}"
    to_be_finished = any(lab.rglob(REPLACED_BY))  # asked first: who reads there finishes it
    left = see(lab)
    assert said.status in (0, 1), f"{where}: {said}"
    assert "Traceback" not in said.err, f"{where}: {said.err}"
    goes_on = what.startswith(STEPS)
    odd = [n for n in before if left.get(n) not in (before[n], new.get(n))]
    odd += [n for n in left if n not in before and left[n] != new.get(n) and not goes_on]
    assert to_be_finished or not odd, f"{where}: neither old nor new: {odd}: {said.err}"
    if said.status:
        assert ": error: " in said.err.splitlines()[-1], f"{where}: {said.err}"
        names = [part for part in Path(failed).parts if not part.startswith(".")]
        assert any(name in said.out + said.err for name in names[-2:]), f"{where}: {said.err}"
    else:
        assert left == new, f"{where}: {sorted(n for n in new if left.get(n) != new[n])}"
    with inside(lab):
        again = bayes_asr(command_of(what))
    assert again.status == 0 or (what in ONCE and not said.status), f"{where}: {again.err}"
    after = see(lab)
    assert after == new, f"{where}: {sorted(n for n in new | after if after.get(n) != new.get(n))}"
    return "refused" if said.status else "answered"


def draw(rng: random.Random, counts: dict[str, int]) -> Disturbance:
    """A disturbance of a call that makes so many calls of each kind."""
    kind = rng.choice([kind for kind in KINDS if counts[kind]])
    return Disturbance(kind, rng.randint(1, counts[kind]), rng.choice(ERRORS[kind]))


def run(seed: int, count: int, log: Path) -> int:
    """Disturb all calls in turn, `count` times in all, behind what the log has; the status."""
    with log.open("a+", encoding="utf-8") as notes:
        notes.seek(0)
        met = [json.loads(line) for line in notes]
        for number in range(len(met), count):
            what = [*CALLS][number % len(CALLS)]
            rng = random.Random(f"{seed} {number}")
            counts = undisturbed(what)[2]
            disturbance = draw(rng, counts)
            try:
                result = attack(what, disturbance)
            except AssertionError as error:
                result = str(error)
            met.append([number, what, disturbance.kind, result])
            print(json.dumps(met[-1]), file=notes, flush=True)
    results = Counter(
        (kind, result) for _, _, kind, result in met if result in ("answered", "refused")
    )
    for (kind, result), times in sorted(results.items()):
        print(f"{kind}: {result} {times}")
    bad = [result for *_, result in met if result not in ("answered", "refused")]
    print(*bad, sep="\n")
    return 1 if bad else 0


def run_preloaded(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the shim at `place`, and run this module with it."""
    shim = place / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, SHIM, "-ldl"], check=True)
    words = [sys.executable, "-m", "tests.attacks.failing_calls", *options]
    environment = {**os.environ, "LD_PRELOAD": str(shim)}
    return subprocess.run(words, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


def main() -> int:
    """Begin again with the shim preloaded, and attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--log", type=Path, default=Path(os.devnull))
    arguments = parser.parse_args()
    if "LD_PRELOAD" in os.environ:
        return run(arguments.seed, arguments.count, arguments.log)
    with tempfile.TemporaryDirectory() as place:
        done = run_preloaded(Path(place), *sys.argv[1:])
    print(done.stdout, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
