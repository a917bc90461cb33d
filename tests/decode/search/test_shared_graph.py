"""A graph in memory that several processes share."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from bayes_asr.decode.search import shared_graph
from bayes_asr.decode.search.shared_graph import open_shared_graph, share_graph
from tests.support.decode_cases import random_network


def values(table: Any) -> list[Any]:
    """What a dataclass holds, those inside it too."""
    found = [getattr(table, field.name) for field in fields(table)]
    return [x for one in found for x in (values(one) if is_dataclass(one) else [one])]


def test_what_is_borrowed_is_what_was_lent() -> None:
    network = random_network(3)
    with share_graph(network) as lent:
        assert lent is not None
        found = open_shared_graph(lent)
        assert open_shared_graph(lent) is found
    for ours, theirs in zip(values(network), values(found), strict=True):  # it stays after its end
        np.testing.assert_array_equal(ours, theirs, strict=isinstance(ours, np.ndarray))
    assert sum(isinstance(value, np.ndarray) for value in values(found)) > 10
    with pytest.raises(ValueError, match="read-only"):
        found.final[0] = 1


def test_who_lends_no_more_is_missed() -> None:
    with share_graph(random_network(4)) as lent:
        assert lent is not None
    with pytest.raises(MemoryError, match="the process that lends the decoding graph is gone"):
        open_shared_graph(lent)


def test_where_memory_cannot_be_offered_each_process_reads_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_graph, "open_memory", lambda *_: None)
    with share_graph(random_network(3)) as lent:
        assert lent is None
