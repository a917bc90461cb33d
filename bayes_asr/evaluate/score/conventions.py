"""Conventions of counting: what may be missing, what counts as the same, what does not count."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import find_configuration
from bayes_asr.evaluate.score.phones import PhoneMap, read_folding
from bayes_asr.evaluate.score.scores import Metric


@dataclass(frozen=True)
class Convention:
    """A rule of counting errors, beside the costs.

    optional: reference tokens that may be missing; phones: how tokens of both sides are folded;
    vocabulary: where it is given, errors at other reference tokens do not count.
    """

    name: str
    optional: frozenset[str] = frozenset()
    phones: PhoneMap = field(default_factory=dict, hash=False)
    vocabulary: frozenset[str] | None = None


# TIMIT results exist in two conventions: Kaldi's recipe has been strict since November 2014,
# pytorch-kaldi keeps the older one, where every silence of the reference may be missing.
CONVENTIONS: dict[Metric, tuple[Convention, ...]] = {
    "per": (Convention("strict"), Convention("forgiving", frozenset({"sil"}))),
    "wer": (Convention("plain"),),
    "error": (Convention("plain"),),
}
"""Those of each metric that are counted where none are named."""

KNOWN = "known"
"""The convention, of words, by which only those that can be recognised count."""


def choose_conventions(
    metric: Metric, names: Sequence[str], find_vocabulary: Callable[[], Collection[str]]
) -> tuple[Convention, ...]:
    """The conventions that `score.conventions` names; all of the metric's where it names none.

    `NAME=FILE` folds phones by FILE. find_vocabulary: the words that can be recognised.
    Raises InputError for a name that the metric does not have.
    """
    defaults = {convention.name: convention for convention in CONVENTIONS[metric]}
    conventions = []
    for name in names or defaults:
        short_name, equals, file = name.partition("=")
        # NAME=FILE folds phones by the file before they are counted.
        if equals:
            phones = read_folding(find_configuration(Path(file)))
            conventions.append(Convention(short_name, phones=phones))
        elif name in defaults:
            conventions.append(defaults[name])
        # The vocabulary is read only where it is needed: a large graph has many words.
        elif name == KNOWN and metric == "wer":
            conventions.append(Convention(KNOWN, vocabulary=frozenset(find_vocabulary())))
        else:
            choices = [*defaults, *([KNOWN] if metric == "wer" else []), "NAME=FILE"]
            raise InputError(
                f"score.conventions names {name}, which {metric} does not have; known:"
                f" {', '.join(choices)}"
            )
    return tuple(conventions)


def list_foldings(names: Sequence[str]) -> list[Path]:
    """The files by which conventions fold phones."""
    files = (name.partition("=")[2] for name in names)
    return [find_configuration(Path(file)) for file in files if file]
