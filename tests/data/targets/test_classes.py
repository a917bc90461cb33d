"""One label an utterance: numbers by name, unknown ones refused, in time for many classes."""

import itertools
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.data.targets.classes import CLASSES, Classes, check_class


class Name(str):
    """A name that counts with how many others it is compared."""

    __slots__ = ()
    compared = itertools.count()

    def __eq__(self, other: object) -> bool:
        next(self.compared)
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_an_utterance_takes_no_longer_where_there_are_many_classes() -> None:
    counts = []
    for size in (10, 1000):
        classes = {f"u{number}": Name(f"word{number:05}") for number in range(size)}
        before = next(Name.compared)
        labels = Classes(Path("data"), classes, dict.fromkeys(classes, 9), [*classes.values()])
        counts.append((next(Name.compared) - before) / size)
        found = [int(labels.targets[CLASSES].labels(utt)[0]) for utt in classes]
        assert found == [*range(size)]
    assert counts[1] <= counts[0] + 1


def test_an_unknown_class_is_named_with_the_known_ones() -> None:
    message = "u1 is of the class dut, .* did you mean deu.; known: deu, eng"
    with pytest.raises(InputError, match=message):
        check_class("dut", "u1", Path("data"), {"deu": 0, "eng": 1})
    with pytest.raises(InputError, match=message):
        Classes(Path("data"), {"u1": "dut"}, {"u1": 9}, ("deu", "eng"))
