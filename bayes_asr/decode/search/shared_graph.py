"""A decoding graph in shared memory, once for all processes of a machine."""

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
class SharedGraph:
    """A decoding graph whose arrays lie in the memory that another process offers.

    place, name, size: of that memory; content: the pickle without the arrays; spans: begin and end
    of each array.
    """

    place: str
    name: str
    size: int
    content: bytes
    spans: tuple[tuple[int, int], ...]


@contextmanager
def share_graph(graph: DecodingGraph) -> Iterator[SharedGraph | None]:
    """Offer a graph to other processes while the block lasts; None where that is not possible."""
    # Pickle protocol 5 hands out the arrays as buffers, so that only these go to shared memory.
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(graph, protocol=5, buffer_callback=buffers.append)
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
        yield SharedGraph(*offered, size, content, spans)


@cache
def open_shared_graph(shared: SharedGraph) -> DecodingGraph:
    """The graph that another process of this machine shares; a process maps it once.

    `shared` comes from the process that started this one.
    """
    memory = open_memory(shared.place, shared.name, shared.size)
    if memory is None:
        raise MemoryError("the process that lends the decoding graph is gone")
    view = memoryview(memory).toreadonly()
    arrays = [view[start:end] for start, end in shared.spans]
    graph: DecodingGraph = pickle.loads(shared.content, buffers=arrays)  # noqa: S301
    return graph
