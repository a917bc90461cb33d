"""A study: the systems of an experiment, each at its best learning rate, with several seeds.

    python benchmarks/study.py EXPERIMENT --out OUT [--seeds 3] [--tests A B...] [--json FILE]
    python benchmarks/study.py EXPERIMENT --out OUT --train CONFIG... [--set KEY=VALUE]... \\
        [--minutes M]

Every system is trained with seed 1 at the middle three of `RATES`, and on until both neighbours of
the rate with the fewest wrong frames of dev have been tried; then with the other seeds at that
rate. Every run is decoded and scored, but the table has test for the best rate alone. The most
informative run comes first: a rate of all systems before the next one. What is complete is not
repeated, and processes that are given the same command share the runs. Runs are
OUT/SYSTEM/RATE/seedN: a system of two experiments, by the same name, is trained once. The table
says what is there, and what is missing or diverged; --tests compares systems pair by pair. --set
may not change what sets the systems apart, and runs of another configuration are refused.
"""

import argparse
import itertools
import json
import math
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import record
from calibration import measure_calibration

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.base.lock import in_use
from bayes_asr.cli import main as run_verb
from bayes_asr.config.merge import load
from bayes_asr.config.schema import Config, differences
from bayes_asr.config.systems import read_systems
from bayes_asr.evaluate.score.pair_comparisons import Side, compare_pairs, read_system
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.side_files import CONFIG, ENVIRONMENT, read_environment, read_history
from bayes_asr.tasks.task import task_of
from bayes_asr.train.runs import state
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.record import make_paths_absolute

RATES = (6.4e-5, 1.6e-4, 4e-4, 1e-3, 2.5e-3, 6.3e-3, 1.6e-2, 4e-2, 0.1)
MIDDLE = 4
OWN = ("train.learning_rate", "seed")  # keys that differ between runs of a system
DIVERGED = "train.max_returns"  # in what a run says that gave up because of numbers not finite
LAST_STEP = "calibration.json"  # of a run that is complete
REPLICATES = 10_000
WAIT = 10.0  # seconds, until runs of other processes may be complete
Errors = Mapping[int, float]
"""The share of wrong frames of dev with seed 1, by the place in `RATES`."""


class Run(NamedTuple):
    """A training of a system: its rate, a place in `RATES`, and its seed."""

    system: str
    rate: int
    seed: int

    def path(self, out: Path) -> Path:
        """Its directory."""
        return out / self.system / f"{RATES[self.rate]:g}" / f"seed{self.seed}"


def dev_error(path: Path) -> float | None:
    """The lowest share of wrong frames of dev; infinite of a diverged run, None of one to come."""
    if DIVERGED in state.read(path).get("why", ""):
        return math.inf
    if not (path / LAST_STEP).exists():
        return None
    return min(entry["dev_error"] for entry in read_history(path))


def read_errors(out: Path, system: str) -> dict[int, float]:
    """The errors of a system at the rates that are complete."""
    errors = {i: dev_error(Run(system, i, 1).path(out)) for i in range(len(RATES))}
    return {i: error for i, error in errors.items() if error is not None}


def untried(errors: Errors) -> list[int]:
    """Rates that the search still wants: the middle, beside it, then beside the best one."""
    if not errors:
        return [MIDDLE]
    best = best_rate(errors)
    places = dict.fromkeys((MIDDLE - 1, MIDDLE + 1, best - 1, best + 1))
    return [i for i in places if i in range(len(RATES)) and i not in errors]


def best_rate(errors: Errors) -> int:
    """The rate with the fewest errors."""
    return min(errors, key=lambda i: errors[i])


def list_seeds(system: str, errors: Errors, seeds: int) -> list[Run]:
    """The runs of a system at its best rate so far; none where all of them diverged."""
    if min(errors.values(), default=math.inf) == math.inf:
        return []
    return [Run(system, best_rate(errors), seed + 1) for seed in range(seeds)]


def list_missing(out: Path, systems: Iterable[str], seeds: int) -> list[Run]:
    """Runs that are not complete, the most informative first."""
    missing = []
    for system in systems:
        errors = read_errors(out, system)
        rates = untried(errors)
        missing += [(len(errors), Run(system, rate, 1)) for rate in rates]
        if not rates:
            runs = list_seeds(system, errors, seeds)
            missing += [(len(RATES) + r.seed, r) for r in runs if dev_error(r.path(out)) is None]
    # Sorting is stable: systems keep their order.
    return [run for _, run in sorted(missing, key=lambda entry: entry[0])]


def complete(path: Path, configs: Iterable[Path], settings: Iterable[str]) -> None:
    """Train a run, or go on with it, and score it; SystemExit where a step fails.

    Log-likelihoods, a hundred times its network, are not kept. A run that diverges is complete.
    """
    words = [word for setting in settings for word in ("--set", setting)]
    steps = [["train", *map(str, configs), *words, "--out", str(path)]]
    parts = itertools.product(("forward", "decode"), ("dev", "test"))
    steps += [[verb, str(path), "--on", part] for verb, part in parts]
    for step in [*steps, ["score", str(path)]]:
        status = run_verb(step)
        if dev_error(path) == math.inf:
            return
        if status:
            raise SystemExit(status)
    for part in ("dev", "test"):
        shutil.rmtree(path / f"forward_{part}")
    with replacing(path / LAST_STEP) as temporary:
        temporary.write_text(json.dumps(measure_calibration(path)) + "\n")


def check_settings(configs: Mapping[str, Config], settings: Iterable[str]) -> None:
    """Refuse settings that would make systems alike; `configs` have none of them yet."""
    (first, one), *others = configs.items()
    apart = {key: None for _, other in others for key in differences(one, other)}
    for name in (setting.partition("=")[0] for setting in settings):
        if name in OWN:
            raise InputError(f"--set {name}: a study sets it for each run")
        if found := [key for key in apart if f"{key}.".startswith(f"{name}.")]:
            raise InputError(
                f"--set {name}: {found[0]} of {first} is not that of all systems; change it in the"
                " experiment"
            )


def check_runs(args: argparse.Namespace, systems: Iterable[str]) -> None:
    """Refuse to go on with runs of another configuration, complete ones too."""
    for system, rate, seed in itertools.product(systems, range(len(RATES)), range(args.seeds)):
        run = Run(system, rate, seed + 1)
        recorded = run.path(args.out) / CONFIG
        if recorded.exists():
            begun = read_configuration(recorded.parent)
            apart = differences(begun, configure(run, args, begun))
            for key, (old, new) in apart.items():
                raise InputError(
                    f"{recorded}: {key} is {old} in this run, but {new} now; name another --out"
                )


def check_frames(out: Path, systems: Iterable[str]) -> None:
    """Refuse runs that were trained on other frames than the others, as of features made anew."""
    first: dict[str, tuple[str, Path]] = {}
    for system in systems:
        for run in sorted((out / system).glob("*/seed*")):
            for name, digest in hash_frames(run).items():
                other, of = first.setdefault(name, (digest, run))
                if digest != other:
                    raise InputError(
                        f"{run}: trained on other {name} than {of}; train one of them anew, all on"
                        " the same data"
                    )


def hash_frames(run: Path) -> dict[str, str]:
    """What a run noted of the frames of each set; empty of one that has not begun."""
    if not (run / ENVIRONMENT).exists():
        return {}
    folder = f"{read_configuration(run).data.dir}/"
    inputs = read_environment(run)["inputs"].items()
    return {key.replace(folder, ""): digest for key, digest in inputs if "(frames of " in key}


def configure(run: Run, args: argparse.Namespace, begun: Config) -> Config:
    """The configuration of a run as `train` completes it; begun: that which the run has so far."""
    config = load(list_configs(run.system, args), list_settings(run, args))
    completed: Config = task_of(make_paths_absolute(config)).training().complete_options(begun)
    return completed


def list_configs(system: str, args: argparse.Namespace) -> list[Path]:
    """The files of a system."""
    return [*args.train, Path(f"{args.experiment}#{system}")]


def list_settings(run: Run, args: argparse.Namespace) -> list[str]:
    """What is set above the files of a run."""
    return [*args.set, f"train.learning_rate={RATES[run.rate]:g}", f"seed={run.seed}"]


def work(args: argparse.Namespace, systems: Sequence[str]) -> None:
    """Complete what is missing, until the time is up."""
    check_settings({s: load(list_configs(s, args)) for s in systems}, args.set)
    check_runs(args, systems)
    end = time.monotonic() + 60 * args.minutes
    while time.monotonic() < end and (missing := list_missing(args.out, systems, args.seeds)):
        if not any(attempt(run, args, systems) for run in missing):
            time.sleep(WAIT)
        check_frames(args.out, systems)


def attempt(run: Run, args: argparse.Namespace, systems: Sequence[str]) -> bool:
    """Complete a run; False where another process is at it."""
    path = run.path(args.out)
    with ExitStack() as stack:
        try:
            stack.enter_context(in_use(path.with_suffix(".busy")))
        except InputError:
            return False
        if dev_error(path) is not None:
            return True  # another process has completed it this instant
        complete(path, list_configs(run.system, args), list_settings(run, args))
    return True


def describe_system(out: Path, system: str, seeds: int) -> dict[str, Any]:
    """The row of a system: wrong frames and errors of dev by rate, and its best rate with seeds."""
    errors = read_errors(out, system)
    runs = [] if untried(errors) else list_seeds(system, errors, seeds)
    scored = list_complete(runs, out)
    return {
        "system": system,
        "rate: wrong frames, errors of dev": "; ".join(describe_rates(out, system, errors)),
        "best": f"{RATES[runs[0].rate]:g}" if runs else None,
        "seeds": len(scored),
        **{part: spread(rates_of(scored, part)) for part in ("dev", "test")},
        "calibration error": spread(calibration_errors(scored)),
        "missing": "rates" if untried(errors) else describe_missing(runs, out),
    }


def list_complete(runs: Iterable[Run], out: Path) -> list[Path]:
    """The directories of runs that are complete and did not diverge."""
    paths = [run.path(out) for run in runs]
    return [path for path in paths if dev_error(path) not in (None, math.inf)]


def describe_missing(runs: Sequence[Run], out: Path) -> str | None:
    """Whether seeds at the best rate are still to come, and how many of them diverged."""
    if not runs:
        return "all diverged"
    errors = [dev_error(run.path(out)) for run in runs]
    parts = ["seeds"] if None in errors else []
    if diverged := errors.count(math.inf):
        parts.append(f"{diverged} diverged")
    return ", ".join(parts) or None


def describe_rates(out: Path, system: str, errors: Errors) -> Iterator[str]:
    """For each rate that was tried, in order, what it has on dev with seed 1."""
    for rate, error in sorted(errors.items()):
        if error == math.inf:
            yield f"{RATES[rate]:g}: diverged"
        else:
            (counted,) = rates_of([Run(system, rate, 1).path(out)], "dev")
            yield f"{RATES[rate]:g}: {error:.2%}, {counted:.2f}"


def rates_of(paths: Iterable[Path], part: str) -> list[float]:
    """Error rates of runs in per cent, by the first convention of their configuration."""
    return [read_scores(path / f"score_{part}.json")[0].counts.rate for path in paths]


def calibration_errors(paths: Iterable[Path]) -> list[float]:
    """Expected calibration errors of runs in per cent of the frames of dev."""
    key = "calibration error"
    return [json.loads((path / LAST_STEP).read_text())[key] for path in paths]


def spread(rates: Sequence[float]) -> str | None:
    """Mean and standard deviation, of one run its rate alone."""
    if not rates:
        return None
    deviation = f" ± {statistics.stdev(rates):.2f}" if len(rates) > 1 else ""
    return f"{statistics.mean(rates):.2f}{deviation}"


def read_seeds(out: Path, system: str, seeds: int) -> Side:
    """The scores on test of a system at its best rate so far, of the seeds that its row counts."""
    errors = read_errors(out, system)
    paths = list_complete(list_seeds(system, errors, seeds), out)
    if not paths:
        why = "every run diverged" if errors else "no run is complete"
        raise InputError(f"{out / system}: {why}; train the system, or leave it out of --tests")
    scores = read_system([path / "score_test.json" for path in paths])
    return Side(system, [paths[0].parent], [scores], [paths])


def compare_systems(
    out: Path, groups: Iterable[Sequence[str]], seeds: int
) -> Iterator[dict[str, Any]]:
    """Rows of all pairs within each group on test; Holm's correction is over all of them."""
    pairs = [pair for group in groups for pair in itertools.combinations(group, 2)]
    sides = [[read_seeds(out, name, seeds) for name in pair] for pair in pairs]
    for result in compare_pairs(sides, REPLICATES, 0, "two-sided"):
        comparison = result.comparison
        test = comparison.tests[0]
        low, high = comparison.difference.difference.interval
        yield {
            "systems": f"{comparison.a.name}, {comparison.b.name}",
            "count": comparison.convention,
            "points": f"{comparison.points:+.2f} [{low:.2f}, {high:.2f}]",
            "test": f"{test.test}, {test.number} {test.unit}s",
            "p": f"{test.p:.2g}",
            "Holm": f"{result.adjusted.get(test.title, test.p):.2g}",
            "over seeds": comparison.seeds and f"{comparison.seeds.p:.2g}",
            "shown": ", ".join(f"{d.points:.2f} ({d.unit}s)" for d in comparison.detectable()),
        }


def main() -> None:
    """Train what is missing if asked to, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path, help="a list of systems")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=3, help="of each system (default 3)")
    parser.add_argument(
        "--train", type=Path, nargs="+", metavar="CONFIG", help="train on top of these files"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one key")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after these")
    parser.add_argument(
        "--tests", nargs="+", action="append", default=[], help="compare these systems, all pairs"
    )
    record.add_options(parser)
    args = parser.parse_args()
    try:
        for names in args.tests:
            if len(names) < 2:
                raise InputError(f"--tests {names[0]}: name two systems or more, to compare them")
        systems, _ = read_systems(args.experiment)
        check_frames(args.out, systems)
        if args.train:
            work(args, systems)
        rows = [describe_system(args.out, system, args.seeds) for system in systems]
        rows += compare_systems(args.out, args.tests, args.seeds) if args.tests else ()
    except InputError as error:
        raise SystemExit(f"study.py: {error}") from error
    print("\n".join(record.tables(rows)))
    record.save(rows, f"study-{args.experiment.stem}", args)


if __name__ == "__main__":
    main()
