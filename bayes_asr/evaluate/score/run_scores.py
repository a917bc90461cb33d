"""The scores of a run, all sets and conventions, as entries of files and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import ErrorCounts
from bayes_asr.evaluate.score.scores import Score, pool

SETS = ("dev", "test")
LISTED = 5  # speakers whose counts a message has


def refuse_trained(folder: Path) -> None:
    """InputError where a folder has a network: what another system decodes would pass for its."""
    for network in sorted(folder.glob("*.pt"))[:1]:
        raise InputError(f"{network}: of a network; another system needs a folder of its own")


@dataclass(frozen=True)
class RunScores:
    """The scores of a run by set.

    oracle: the same at weights that are best for each set itself, where that was asked for; hubscr:
    counts of each speaker by NIST's program, by (set, convention); lm_weights: all that dev was
    decoded at, ascending.
    """

    sets: Mapping[str, list[Score]]
    oracle: Mapping[str, list[Score]]
    hubscr: Mapping[tuple[str, str], dict[str, ErrorCounts]]
    lm_weights: Sequence[float]

    def entries(self) -> list[dict[str, Any]]:
        """Entries of score files, with hubscr's counts, then those of the oracle."""
        entries: list[dict[str, Any]] = []
        for name, scores in self.sets.items():
            for score in scores:
                by_speaker = self.hubscr.get((name, score.convention))
                counts = {"hubscr": pool(by_speaker.values()).as_dict()} if by_speaker else {}
                entries.append({**score.as_dict(), **counts, "oracle": False})
        for scores in self.oracle.values():
            entries += [{**score.as_dict(), "oracle": True} for score in scores]
        return entries

    def lines(self) -> Iterator[str]:
        """A line for each set and convention, and what a reader should know of them."""
        for name, scores in self.sets.items():
            for score in scores:
                yield score.line()
                by_speaker = self.hubscr.get((name, score.convention))
                if by_speaker:
                    difference = describe_difference(score, by_speaker)
                    verdict = f"not the same: {difference}" if difference else "the same"
                    yield f"{pool(by_speaker.values()).kaldi_line()} by hubscr.pl, {verdict}"
            for score in self.oracle.get(name, ()):
                yield f"{score.line()}, oracle: picked on {name} itself, not a result"
        for name in SETS:
            if name not in self.sets:
                yield f"{name}: not decoded"
        yield from self._describe_edges()

    def _describe_edges(self) -> Iterator[str]:
        """Say where dev picks an LM weight at the end of those tried."""
        tried = self.lm_weights
        for score in self.sets["dev"]:
            if len(tried) > 1 and score.lm_weight in (tried[0], tried[-1]):
                yield (
                    f"{score.convention}: dev picks LM weight {score.lm_weight:g}, the end of those"
                    f" tried ({tried[0]:g} to {tried[-1]:g}); widen decode.lm_weights"
                )


def describe_difference(score: Score, hubscr_counts: dict[str, ErrorCounts]) -> str:
    """Say by how much hubscr's counts differ from the score's; empty where none does."""
    # sclite changes the case of speakers, so both sides have small letters.
    score_counts = {speaker.lower(): counts for speaker, counts in score.speakers.items()}
    nothing = ErrorCounts()
    differences = [
        f"{speaker} {score_counts.get(speaker, nothing).as_dict()} here, "
        f"{hubscr_counts.get(speaker, nothing).as_dict()} there"
        for speaker in sorted(score_counts.keys() | hubscr_counts.keys())
        if score_counts.get(speaker, nothing) != hubscr_counts.get(speaker, nothing)
    ]
    omission = f" and {len(differences) - LISTED} more" if len(differences) > LISTED else ""
    return "; ".join(differences[:LISTED]) + omission
