"""A decoding graph that the processes of a machine have once in memory."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from bayes_asr.base.processes.offered_memory import offer_memory, open_memory
from bayes_asr.decode.search.search_graph import DecodingGraph

LINE = 64  # bytes: where arrays may begin


@dataclass(frozen=True)
class Lent:
    """A network whose arrays lie in the memory that another process offers.

    place, name, size: of that memory; content: all but the arrays; spans: where each array begins
    and ends.
    """

    place: str
    name: str
    size: int
    content: bytes
    spans: tuple[tuple[int, int], ...]


@contextmanager
def lend(network: DecodingGraph) -> Iterator[Lent | None]:
    """Offer a network to other processes while the block lasts; None where that is not possible."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(network, protocol=5, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    *starts, size = accumulate((-(-len(array) // LINE) * LINE for array in arrays), initial=0)
    spans = tuple((at, at + len(array)) for at, array in zip(starts, arrays, strict=True))
    with offer_memory(size) as offered:
        memory = open_memory(*offered, size) if offered else None
        if offered is None or memory is None:
            yield None
            return
        for (start, end), array in zip(spans, arrays, strict=True):
            memory[start:end] = array
        yield Lent(*offered, size, content, spans)


@cache
def borrow(lent: Lent) -> DecodingGraph:
    """The network that another process of this machine lends; a process maps it once.

    `lent` comes from the process that started this one.
    """
    memory = open_memory(lent.place, lent.name, lent.size)
    if memory is None:
        raise MemoryError("the process that lends the decoding graph is gone")
    view = memoryview(memory).toreadonly()
    arrays = [view[start:end] for start, end in lent.spans]
    network: DecodingGraph = pickle.loads(lent.content, buffers=arrays)  # noqa: S301
    return network
