"""Other readings of lattices: best words at other weights, n-best lists, least risk, times."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import together
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.progress import follow
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT, Place, write_ctm
from bayes_asr.decode.lattices.mbr import TimedWord, decode_risk
from bayes_asr.decode.lattices.paths import Weights, best_paths, pair_weights, sweep_words
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice, iter_lattices
from bayes_asr.kaldi_io.text import WordSymbols, write_mapping, write_text


@dataclass(frozen=True)
class Readings:
    """What to read out of a lattice besides the best words, at each pair of weights."""

    grid: tuple[Weights, ...]
    nbest: int = 0
    risk: bool = False


@dataclass(frozen=True)
class Reading:
    """What one lattice gave at one pair of weights."""

    utt: str
    words: list[int]
    best: list[list[int]]
    timed: list[TimedWord]
    risk: float


def rescore_lattices(
    lattices: Sequence[Path],
    words: Path,
    out: Path,
    *,
    lmwts: Sequence[float],
    wips: Sequence[float] = (0.0,),
    nbest: int = 0,
    mbr: bool = False,
    frame_shift: float = FRAME_SHIFT,
    nj: int = 1,
) -> int:
    """Read Kaldi's word lattices (lat.N.gz) at each pair of weights; returns how many there are.

    Writes words.lmwtW.wipP.txt; with `nbest` also nbest.lmwtW.wipP.txt, whose keys are utterance-1,
    utterance-2, ...; with `mbr` the words of least expected error, mbr.lmwtW.wipP.txt, that
    expectation, mbr_risk.lmwtW.wipP.txt, and ctm.lmwtW.wipP with times in seconds, `frame_shift` a
    frame, and confidences.  `words` is the words.txt of the graph.
    """
    readings = Readings(tuple(pair_weights(lmwts, wips)), nbest, mbr)
    symbols = WordSymbols(words)
    found = map_utterances(partial(read_lattice, readings), read_all(lattices), nj)
    done = list(follow(found, "rescore"))
    if not done:
        raise InputError(f"{', '.join(map(str, lattices))}: hold no lattice")
    with together(Path(out)):
        for k, (lmwt, wip) in enumerate(readings.grid):
            name = f"lmwt{lmwt:g}.wip{wip:.1f}"
            found_here = [row[k] for row in done]
            write_readings(found_here, symbols, Path(out), name, frame_shift, readings)
    return len(done)


def read_all(lattices: Iterable[Path]) -> Iterator[tuple[str, CompactLattice]]:
    """Stream the word lattices of several archives; InputError for one without a path."""
    for path in lattices:
        for utt, lattice in iter_lattices(Path(path)):
            if isinstance(lattice, Lattice):
                raise InputError(
                    f"{path}: {utt} is a state-level lattice; lattice-determinize-pruned makes "
                    "word lattices"
                )
            if not lattice.num_states:
                raise InputError(
                    f"{path}: {utt} has no path from its start to an end; decode it again, with a"
                    " wider beam"
                )
            yield utt, lattice


def read_lattice(readings: Readings, utt: str, lattice: CompactLattice) -> list[Reading]:
    """Return the readings of one lattice, one for each pair of weights."""
    found = []
    words = sweep_words(lattice, readings.grid)
    for (lmwt, wip), best_words in zip(readings.grid, words, strict=True):
        paths = best_paths(lattice, readings.nbest, lmwt, wip)
        timed: list[TimedWord] = []
        risk = 0.0
        if readings.risk:
            least = decode_risk(lattice, lmwt, wip)
            timed, risk = least.words, least.risk
        found.append(Reading(utt, best_words, [path.words for path in paths], timed, risk))
    return found


def write_readings(
    found: list[Reading],
    symbols: WordSymbols,
    out: Path,
    name: str,
    frame_shift: float,
    readings: Readings,
) -> None:
    """Write the files of one pair of weights."""

    def write_words(path: Path, hypotheses: Iterable[tuple[str, list[int]]]) -> None:
        write_text(((utt, [symbols[word] for word in words]) for utt, words in hypotheses), path)

    write_words(out / f"words.{name}.txt", ((one.utt, one.words) for one in found))
    if readings.nbest:
        ranked = (
            (f"{one.utt}-{rank}", words) for one in found for rank, words in enumerate(one.best, 1)
        )
        write_words(out / f"nbest.{name}.txt", ranked)
    if readings.risk:
        least = ((one.utt, [timed.word for timed in one.timed]) for one in found)
        write_words(out / f"mbr.{name}.txt", least)
        risks = ((one.utt, f"{one.risk:.7g}") for one in found)
        write_mapping(risks, out / f"mbr_risk.{name}.txt")
        spoken = ((one.utt, one.timed) for one in found)
        write_ctm(spoken, symbols, out / f"ctm.{name}", frame_shift)


def write_ctm_at(
    weights: Weights,
    lattices: Sequence[Path],
    words: Path,
    path: Path,
    places: Mapping[str, Place] | None = None,
    nj: int = 1,
    frame_shift: float = FRAME_SHIFT,
) -> None:
    """Write the words of least expected error in word lattices at one pair of weights as a CTM.

    Kaldi: lattice-to-ctm-conf --decode-mbr=true; `places`, `frame_shift` as for ctm.write_ctm.
    """
    symbols = WordSymbols(words)
    found = map_utterances(partial(time_words, weights), read_all(lattices), nj)
    shown = follow(found, path.name)
    write_ctm(shown, symbols, path, frame_shift, places)


def time_words(weights: Weights, utt: str, lattice: CompactLattice) -> tuple[str, list[TimedWord]]:
    """Return the utterance and its words of least expected error."""
    return utt, decode_risk(lattice, *weights).words
