"""Comparisons of scored runs on disk: their sides are read, checked, and compared pair by pair."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bayes_asr.base.errors import InputError, name_some, printable
from bayes_asr.base.files import real_path
from bayes_asr.base.log import LOGGER
from bayes_asr.evaluate.score.comparison import Comparison, adjust_over, compare
from bayes_asr.evaluate.score.scores import (
    Score,
    check_all_comparable,
    find_scores,
    is_seed,
    read_scores,
)
from bayes_asr.evaluate.score.statistics import Alternative


class Side(NamedTuple):
    """One side of a comparison: its name, its systems, and the runs of each by convention.

    folders: of the runs of each system, in their order.
    """

    name: str
    paths: Sequence[Path]
    systems: Sequence[Mapping[str, Sequence[Score]]]
    folders: Sequence[Sequence[Path]]

    def runs(self, convention: str) -> Iterator[tuple[Path, Score]]:
        """The folder of each run of all systems, and its score under a convention."""
        for folders, system in zip(self.folders, self.systems, strict=True):
            yield from zip(folders, system[convention], strict=True)

    def decodings(self) -> Iterator[tuple[Path, Mapping[str, Any] | None]]:
        """The folder of each run, and with what it was decoded, where that is known."""
        return ((path, run.decoded) for path, run in self.runs(next(iter(self.systems[0]))))


class PairComparison(NamedTuple):
    """The comparison of a pair of sides, one of `pairs` that are compared.

    adjusted: p of each test by Holm over the pairs; empty where there is one pair.
    """

    comparison: Comparison
    sides: Sequence[Side]
    adjusted: Mapping[str, float]
    pairs: int

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        content = self.comparison.as_dict(self.pairs if self.adjusted else 1, self.adjusted)
        for letter, side in zip("ab", self.sides, strict=True):
            content[letter]["systems"] = [str(path) for path in side.paths]
        if self.adjusted:
            for test, entry in zip(self.comparison.tests, content["tests"], strict=True):
                entry["adjusted_over_pairs"] = self.adjusted[test.title]
        return content

    def as_text(self) -> str:
        """For a terminal: a sentence, both sides, power, and a table of tests."""
        comparison = self.comparison
        directions = {"two-sided": "", "less": "; p: A has less", "greater": "; p: A has more"}
        lines = [
            comparison.sentence(self.adjusted),
            "",
            *self._describe_sides(),
            f"probability that B improves on A: {100 * comparison.difference.improvement:.2f} %"
            f"{directions[comparison.alternative]}",
            comparison.seeds_sentence(),
            comparison.power_sentence(),
            *([comparison.power_sentence(self.pairs)] if self.adjusted else []),
            "",
            *self._tabulate_tests(),
            *comparison.warnings,
        ]
        return "\n".join(lines)

    def _describe_sides(self) -> Iterator[str]:
        systems = (self.comparison.a, self.comparison.b)
        for letter, system, side in zip("AB", systems, self.sides, strict=True):
            beta = f"{system.beta.low:.2f} to {system.beta.high:.2f}" if system.beta else "none"
            low, high = system.bootstrap.interval
            paths = f" of {', '.join(map(str, side.paths))}" if len(side.paths) > 1 else ""
            runs = f" ({system.runs} runs{printable(paths)})" if system.runs > 1 else ""
            counts = system.counts.kaldi_line(self.comparison.metric)
            yield (
                f"{letter} {system.name}{runs}: {counts}, 95 %: beta {beta}, "
                f"bootstrap {low:.2f} to {high:.2f}"
            )

    def _tabulate_tests(self) -> Iterator[str]:
        adjusted, directed = self.adjusted, self.comparison.alternative != "two-sided"
        heading = f"{'test':30} {'units':>18} {'statistic':>10} {'p':>9}"
        heading += f" {'two-sided':>9}" * directed + f" {'p (Holm)':>9}"
        yield heading + f" {f'over {self.pairs} pairs':>14}" * bool(adjusted)
        for test in self.comparison.tests:
            line = f"{test.test:30} {test.units:>18} {test.statistic:10.3f} {test.p:9.3g}"
            line += f" {test.two_sided:9.3g}" * directed + f" {test.adjusted:9.3g}"
            yield line + (f" {adjusted[test.title]:14.3g}" if adjusted else "")


def read_side(name: str, paths: Sequence[Path], set_name: str) -> Side:
    """The scores of the systems in these folders on one set."""
    files = [_find_runs(path, f"score_{set_name}.json") for path in paths]
    folders = [[file.parent for file in of_system] for of_system in files]
    return Side(name, paths, list(map(read_system, files)), folders)


def read_system(files: Sequence[Path]) -> dict[str, list[Score]]:
    """The scores of runs by convention."""
    runs = [{s.convention: s for s in read_scores(f)} for f in files]
    for score_file, run in zip(files, runs, strict=True):
        _check_conventions(runs[0], run, (str(files[0].parent), str(score_file.parent)))
    return {convention: [run[convention] for run in runs] for convention in runs[0]}


def _find_runs(path: Path, file: str) -> list[Path]:
    """The score files of a run, or of the seeds of a folder; without seeds, of all runs below it.

    Runs beside seeds, such as copies, are named and left out: they are no other trainings.
    InputError where the seeds are of several folders: these are systems.
    """
    below = find_scores(path, file)
    # A folder with a score file is a run, whatever lies below it.
    if path / file in below:
        return [path / file]
    seeds = [scores for scores in below if is_seed(scores.parent)]
    own_seeds = [scores for scores in seeds if scores.parent.parent == path]
    files = own_seeds or seeds or below
    systems = dict.fromkeys(str(scores.parent.parent) for scores in own_seeds or seeds)
    if len(systems) > 1:
        raise InputError(
            f"{path}: holds seeds of {len(systems)} systems, {name_some(list(systems))}; name one"
            " of them, or several as a group (--group, --against)"
        )
    if left_out := [str(scores.parent) for scores in below if scores not in files]:
        LOGGER.warning(
            "%s: compared are its folders seedN alone, without %s; name such a run by itself",
            *(printable(str(path)), name_some(left_out)),
        )
    return files


def compare_pairs(
    pairs: Sequence[Sequence[Side]],
    replicates: int,
    seed: int,
    alternative: Alternative,
    *,
    joined: bool = False,
    as_groups: bool = False,
) -> list[PairComparison]:
    """Compare each pair (A, B) under each convention; Holm's correction is over the pairs.

    joined: compare all A together with all B too, unless a system is there twice; as_groups: as for
    `comparison.compare`. A convention under which runs are not scored alike is left out, with a
    warning; InputError where none is left.
    """
    conventions = _find_comparable(list(chain.from_iterable(pairs)))

    def compare_sides(sides: Sequence[Side], convention: str, as_groups: bool) -> Comparison:
        a, b = ([system[convention] for system in side.systems] for side in sides)
        names = sides[0].name, sides[1].name
        return compare(a, b, names, replicates, seed, alternative, as_groups=as_groups)

    joined = joined and not _warn_of_repeated(pairs)
    results: list[PairComparison] = []
    for convention in conventions:
        comparisons = [compare_sides(pair, convention, as_groups) for pair in pairs]
        # A single pair needs no correction.
        adjusted = adjust_over(comparisons) if len(pairs) > 1 else [{}]
        for comparison, pair, p in zip(comparisons, pairs, adjusted, strict=True):
            results.append(PairComparison(comparison, pair, p, len(pairs)))
        # The systems of all A make one side then, and those of all B the other.
        if joined:
            all_a, all_b = zip(*pairs, strict=True)
            sides = [_join("group A", all_a), _join("group B", all_b)]
            results.append(
                PairComparison(compare_sides(sides, convention, False), sides, {}, len(pairs))
            )
    return results


def _warn_of_repeated(pairs: Sequence[Sequence[Side]]) -> bool:
    """Whether all A, or all B, have a system twice, whose runs would count as other trainings."""
    for sides in zip(*pairs, strict=True):
        if repeated := find_repeated([path for side in sides for path in side.paths]):
            LOGGER.warning(
                "%s: is in several pairs, so that all together are not compared; --group and"
                " --against do that, each system given once",
                repeated,
            )
            return True
    return False


def find_repeated(paths: Sequence[Path]) -> Path | None:
    """The first folder that is there twice, by whatever names; its errors count twice."""
    folders = list(map(real_path, paths))
    return next((p for p, f in zip(paths, folders, strict=True) if folders.count(f) > 1), None)


def check_apart(runs: Sequence[Path]) -> None:
    """InputError where one of the runs of two groups is there twice, by whatever names."""
    if repeated := find_repeated(runs):
        raise InputError(f"{repeated}: is in both groups, or twice in one; name each run once")


def _join(name: str, sides: Sequence[Side]) -> Side:
    paths = [path for side in sides for path in side.paths]
    systems = [system for side in sides for system in side.systems]
    return Side(name, paths, systems, [folder for side in sides for folder in side.folders])


def _find_comparable(sides: Sequence[Side]) -> list[str]:
    """The conventions under which all runs are scored alike; warnings say why others are not."""
    reference, path = sides[0].systems[0], sides[0].paths[0]
    for side in sides:
        for other_path, system in zip(side.paths, side.systems, strict=True):
            _check_conventions(reference, system, (str(path), str(other_path)))
    reasons = {}
    for convention in reference:
        runs = chain.from_iterable(side.runs(convention) for side in sides)
        try:
            check_all_comparable((str(run_path), run) for run_path, run in runs)
        except InputError as error:
            reasons[convention] = error
    if len(reasons) == len(reference):
        raise next(iter(reasons.values()))
    for convention, reason in reasons.items():
        LOGGER.warning("%s: not compared: %s", printable(convention), reason)
    return [convention for convention in reference if convention not in reasons]


def _check_conventions(a: Collection[str], b: Collection[str], names: tuple[str, str]) -> None:
    if set(a) != set(b):
        raise InputError(
            f"{names[0]} is scored {', '.join(a)} and {names[1]} {', '.join(b)}; score both alike"
        )
