"""Measurements of one case on a card: training steps by each path, and the recurrence alone.

Paths take turns, so that what else the machine does meets all of them. Each is compared with
float32 products by the path `eager` first. One that fails is told, and the others go on.
"""

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from card import Instrument
from recurrences import build_recurrence
from torch import Tensor
from trained import Case, Size, Trained, build, relative_error, set_precision

from bayes_asr.nn.kernels.cuda.capture import workspace

LONGEST_TURN = 50  # steps
TOLERANCES = {"float32": 1e-2, "tf32": 5e-2, "bfloat16": 2e-1}
"""Relative errors of outputs and gradients above which a path differs.

Where a pre-activation is about 0, the slope of ReLU turns: Li-GRU differs most, by any path.
"""

EAGER = "eager"
"""The path that all are compared with."""

Row = dict[str, Any]
Tensors = tuple[list[Tensor], list[Tensor]]
"""Outputs and gradients."""


class Attempt(NamedTuple):
    """A path is about to be tried."""

    path: str


Report = Attempt | Row


class UselessError(RuntimeError):
    """An error has made the device useless to this process."""


class Turns(NamedTuple):
    """The turns in which each path is timed, and about how long they are.

    warm_up: steps until kernels are compiled, graphs captured and memory is there.
    """

    rounds: int
    milliseconds: float
    warm_up: int = 3


@dataclass(frozen=True)
class Bench:
    """The card and the sizes that all cases share."""

    card: Instrument
    size: Size
    turns: Turns
    clone: Path | None = None


@dataclass
class Timing:
    """Measurements of a path; milliseconds and joules are of one step, in each turn.

    errors: of outputs and gradients; megabytes: the most that the network, its optimizer, its batch
    and the path need for both passes; steps: of a turn.
    """

    errors: tuple[float, float]
    megabytes: float
    steps: int = 1
    launches: int | None = None
    milliseconds: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)


def measure_steps(
    bench: Bench, case: Case, paths: Sequence[str], *, launches: bool
) -> Iterator[Report]:
    """Yield attempts, and a row for each path; launches: count those of a step."""
    yield Attempt(paths[0])
    set_precision("float32")
    trained = build(case, bench.size, bench.card.device, bench.clone)
    trained.bfloat16 = False
    trained.take(EAGER)
    trained.step()  # the optimizer allocates its averages
    reference = trained.gradients()
    set_precision(case.precision)
    trained.bfloat16 = case.precision == "bfloat16"
    base = bench.card.allocated()
    timings: dict[str, Timing] = {}

    def attempt(path: str, work: Callable[[], None]) -> Iterator[Report]:
        yield Attempt(path)
        try:
            trained.take(path)
            work()
        except Exception as error:
            timings.pop(path, None)
            yield describe_steps(case, path, None, None, describe(error))
            check(bench.card)

    def begin(path: str) -> None:
        free_graphs(bench.card)
        allocated = bench.card.allocated()
        bench.card.reset_peak()
        errors = compare(trained, reference)
        timings[path] = Timing(errors, base + bench.card.peak() - allocated)

    def count(path: str) -> None:
        timings[path].launches = bench.card.launches(trained.step)

    # All are compared before the weights change.
    for path in paths:
        yield from attempt(path, partial(begin, path))
    for path in list(timings):
        yield from attempt(path, partial(warm_up, bench, trained, timings[path]))
    for _ in range(bench.turns.rounds):
        for path in list(timings):
            yield from attempt(path, partial(time_steps, bench.card, trained, timings[path]))
    for path in list(timings) if launches else ():
        yield from attempt(path, partial(count, path))
    for path, timing in timings.items():
        yield describe_steps(case, path, timing, timings.get(EAGER), judge(case, timing))


def warm_up(bench: Bench, trained: Trained, timing: Timing) -> None:
    """Take a few steps, and see how many are a turn."""
    card = bench.card
    for _ in range(bench.turns.warm_up):
        start = card.mark()
        trained.step()
        milliseconds = card.milliseconds(start, card.mark())
    timing.steps = int(min(max(bench.turns.milliseconds / milliseconds, 1), LONGEST_TURN))


def compare(trained: Trained, reference: Tensors) -> tuple[float, float]:
    """The relative errors of outputs and of gradients."""
    pairs = zip(trained.gradients(), reference, strict=True)
    by_outputs, by_gradients = (relative_error(tensors, exact) for tensors, exact in pairs)
    return by_outputs, by_gradients


def time_steps(card: Instrument, trained: Trained, timing: Timing) -> None:
    """Take a turn."""
    joules, start = card.joules(), card.mark()
    for _ in range(timing.steps):
        trained.step()
    timing.milliseconds.append(card.milliseconds(start, card.mark()) / timing.steps)
    if joules is not None:
        timing.joules.append(((card.joules() or joules) - joules) / timing.steps)


def free_graphs(card: Instrument) -> None:
    """Free what other paths hold: the CUDA graphs of a device and their buffers."""
    card.check()  # no graph may end while it runs
    workspace.cache_clear()
    gc.collect()


def judge(case: Case, timing: Timing) -> str:
    """The outcome of a path that was timed: nothing, or that it differs."""
    # NaN is never small enough.
    return "" if max(timing.errors) <= TOLERANCES[case.precision] else "differs from eager float32"


def describe_steps(
    case: Case, path: str, timing: Timing | None, eager: Timing | None, outcome: str
) -> Row:
    """A row of the table of steps; timing, eager: of the path and of `EAGER`, where there are."""
    row: Row = {
        "network": case.network,
        "path": path,
        "precision": case.precision,
        "batch": case.batch,
        "frames": case.frames,
        "lengths": "ragged" if case.ragged else "equal",
        "frames_per_second": None,
        "over_eager": None,
        "milliseconds": None,
        "spread": None,
        "megabytes": None,
        "joules_per_1000_frames": None,
        "launches": None,
        "error_of_outputs": None,
        "error_of_gradients": None,
        "outcome": outcome,
        "turns": [],
    }
    if timing:
        frames, median = sum(case.lengths), statistics.median(timing.milliseconds)
        row["error_of_outputs"], row["error_of_gradients"] = timing.errors
        row |= {
            "frames_per_second": 1000 * frames / median,
            "over_eager": statistics.median(eager.milliseconds) / median if eager else None,
            "milliseconds": median,
            "spread": (max(timing.milliseconds) - min(timing.milliseconds)) / median,
            "megabytes": timing.megabytes,
            "launches": timing.launches,
            "turns": timing.milliseconds,
        }
        if timing.joules:
            row["joules_per_1000_frames"] = 1000 * statistics.mean(timing.joules) / frames
    return row


def measure_recurrence(bench: Bench, case: Case, paths: Sequence[str]) -> Iterator[Report]:
    """Likewise the recurrence of a layer alone, forward and backward, in microseconds a step."""
    yield Attempt(paths[0])
    card = bench.card
    set_precision(case.precision)
    recurrence = build_recurrence(case, bench.size, card.device)
    spent: dict[str, tuple[list[float], list[float]]] = {}
    for round_ in range(bench.turns.warm_up + bench.turns.rounds):
        for path in paths if round_ == 0 else list(spent):
            yield Attempt(path)
            try:
                recurrence.take(path)
                start = card.mark()
                h = recurrence.forward()
                middle = card.mark()
                recurrence.backward(h)
                end = card.mark()
                both = card.milliseconds(start, middle), card.milliseconds(middle, end)
            except Exception as error:
                spent.pop(path, None)
                yield describe_recurrence(case, path, ([], []), describe(error))
                check(card)
                continue
            turns = spent.setdefault(path, ([], []))
            if round_ >= bench.turns.warm_up:
                for times, milliseconds in zip(turns, both, strict=True):
                    times.append(1000 * milliseconds / case.frames)
    for path, turns in spent.items():
        yield describe_recurrence(case, path, turns, "")


def describe_recurrence(
    case: Case, path: str, turns: tuple[list[float], list[float]], outcome: str
) -> Row:
    """A row of the table of recurrences; turns: microseconds a time step, forward and backward."""
    forward, backward = turns
    return {
        "recurrence": case.network,
        "path": path,
        "precision": case.precision,
        "batch": case.batch,
        "frames": case.frames,
        "forward_microseconds": statistics.median(forward) if forward else None,
        "backward_microseconds": statistics.median(backward) if backward else None,
        "outcome": outcome,
        "forward_turns": forward,
        "backward_turns": backward,
    }


def describe(error: Exception) -> str:
    """An error in one line."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line}"[:200]


def check(card: Instrument) -> None:
    """UselessError where the device fails after an error."""
    try:
        card.check()
    except RuntimeError as error:
        raise UselessError(describe(error)) from error
