"""One function over many utterances, in order, by processes."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from bayes_asr.errors import InputError

Input = TypeVar("Input")
Output = TypeVar("Output")


def map_utterances(
    function: Callable[[str, Input], Output], utterances: Iterable[tuple[str, Input]], nj: int
) -> Iterator[Output]:
    """Yield function(utterance, input) in order, from `nj` processes, or from this one for 1.

    The processes are a few utterances ahead, so memory stays bounded; `function` and what it takes
    and gives must pickle.  Raises InputError, naming the utterance, if a process dies.
    """
    if nj == 1:
        yield from (function(*utterance) for utterance in utterances)
        return
    with ProcessPoolExecutor(nj, get_context("spawn")) as pool:
        ahead: deque[tuple[str, Future[Output]]] = deque()
        for utt, given in utterances:
            ahead.append((utt, pool.submit(function, utt, given)))
            if len(ahead) > 2 * nj:
                yield _await_result(*ahead.popleft())
        while ahead:
            yield _await_result(*ahead.popleft())


def _await_result(utt: str, future: Future[Output]) -> Output:
    try:
        return future.result()
    except BrokenProcessPool:
        raise InputError(
            f"{utt}: a decoding process died, perhaps for lack of memory; try a smaller nj"
        ) from None
