"""Train and compute log-likelihoods on a real Slurm of one node, disturb them, and compare.

usage: python -m tests.attacks.slurm [--epochs 150] [--slurm-pl FILE]

Starts munged, slurmctld and slurmd on this machine (as root; Debian's slurm-wlm). Two tasks train
by local/slurm_train.sh, once undisturbed, then signalled by `scancel --signal=TERM`, requeued by
`scontrol requeue`, and signalled by SIGUSR1 to the script. Each job is queued again and must end
with the bits of the undisturbed one. With Kaldi's slurm.pl, `forward --cmd` must write the bytes of
one process, also after a shard is lost. Prints a line for each; fails at the first difference.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.places import CONF, ROOT
from tests.support.slurm_machine import find_missing, started
from tests.support.small_corpus import settings, write_corpus
from tests.support.training_runs import assert_same, epochs_of, states

TASKS = ("--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1")
BEFORE = 3  # epochs, before something happens
LOSE_SECOND = """\
[[ $SLURM_ARRAY_TASK_ID != 2 ]] || env() { echo lost on the way; return 9; }
"""
SECONDS = 600.0  # within which everything must happen
DISTURBANCES: dict[str, tuple[tuple[str, ...], Callable[[str], list[str]]]] = {
    "signalled": ((), lambda job: ["scancel", "--signal=TERM", job]),
    "requeued": ((), lambda job: ["scontrol", "requeue", job]),
    "script signalled": (
        ("--signal=B:USR1@10",),
        lambda job: ["scancel", "--batch", "--signal=USR1", job],
    ),
}
"""By name: options of sbatch, and the command that disturbs a job."""


class Slurm:
    """The commands of a Slurm, in a folder."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self.folder = environment, folder

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            command, env=self._environment, cwd=self.folder, capture_output=True, text=True
        )

    def call(self, *command: str) -> str:
        """What a command prints; it must succeed."""
        done = self.run(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, run: str, epochs: int, *options: str) -> str:
        """Start a training; returns the number of its job."""
        train = [str(ROOT / "local/slurm_train.sh"), run, str(CONF / "base.yaml")]
        sets = settings(self.folder, f"train.epochs={epochs}", "train.save_minutes=10")
        log = f"--output={run}.log"
        return self.call("sbatch", "--parsable", *TASKS, *options, log, *train, *sets).strip()

    def show(self, job: str) -> dict[str, str]:
        """What Slurm says of a job."""
        words = self.call("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, job: str, done: Callable[[], bool]) -> None:
        """Wait until something is so; a job that fails before ends the attack."""
        until = time.monotonic() + SECONDS
        while not done():
            state = self.show(job)["JobState"]
            assert state not in ("FAILED", "CANCELLED", "TIMEOUT"), f"job {job}: {state}"
            assert time.monotonic() < until, f"job {job}: {state} after {SECONDS:g} s"
            time.sleep(0.3)

    def is_in(self, job: str, **fields: str) -> Callable[[], bool]:
        """Whether Slurm says this of a job."""
        return lambda: fields.items() <= self.show(job).items()


def disturb(slurm: Slurm, name: str, epochs: int) -> None:
    """Train a run that something happens to, and compare it with `undisturbed`."""
    run, (options, command) = name.replace(" ", "_"), DISTURBANCES[name]
    job = slurm.submit(run, epochs, *options)
    slurm.wait(job, lambda: epochs_of(slurm.folder / run) >= BEFORE)
    slurm.call(*command(job))
    slurm.wait(job, slurm.is_in(job, JobState="PENDING", Restarts="1"))
    reached = epochs_of(slurm.folder / run)
    assert reached < epochs, f"{run}: had ended before it was disturbed; take more --epochs"
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")  # else it waits two minutes
    slurm.wait(job, slurm.is_in(job, JobState="COMPLETED"))
    assert_same(states(slurm.folder / "undisturbed"), states(slurm.folder / run))
    print(f"{name} after {reached} of {epochs} epochs, queued again: the same bits", flush=True)


def share(slurm: Slurm, script: Path) -> None:
    """Compute log-likelihoods in shards by slurm.pl, and once more one that was lost."""
    forward = [sys.executable, "-m", "bayes_asr", "forward", "undisturbed", "--on=train"]
    slurm.call(*forward, "--out=alone")
    given = [f"--out={slurm.folder}/shared", "--nj=2", f"--cmd={script}"]
    (slurm.folder / "path.sh").write_text(LOSE_SECOND)  # slurm.pl reads it
    lost = slurm.run(*forward, *given)
    assert lost.returncode == 1, lost.stderr
    assert "shard 2 of 2 is lost" in lost.stderr, lost.stderr
    assert "forward.2.log: lost on the way" in lost.stderr, lost.stderr
    (slurm.folder / "path.sh").write_text("")
    slurm.call(*forward, *given)
    assert "--array 2-2" in (slurm.folder / "shared/q/forward.sh").read_text()
    alone, shared = (slurm.folder / out / "loglikes.ark" for out in ("alone", "shared"))
    assert alone.read_bytes() == shared.read_bytes()
    print("forward by slurm.pl, a lost shard repeated: the same bytes", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--slurm-pl", type=Path, help="Kaldi's script, for forward --cmd")
    args = parser.parse_args()
    missing = find_missing()
    if missing:
        print(f"skipped: {missing}")
        return 0
    with tempfile.TemporaryDirectory() as place:
        folder = write_corpus(Path(place) / "work")
        with started(Path(place) / "slurm") as environment:
            slurm = Slurm(environment, folder)
            job = slurm.submit("undisturbed", args.epochs)
            slurm.wait(job, slurm.is_in(job, JobState="COMPLETED"))
            for name in DISTURBANCES:
                disturb(slurm, name, args.epochs)
            if args.slurm_pl:
                share(slurm, args.slurm_pl)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
