"""Lattices rescored: best words at other weights, n-best lists, least risk, times."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import together
from bayes_asr.base.processes.pool import map_utterances
from bayes_asr.base.progress import follow
from bayes_asr.decode.lattices.ctm import FRAME_SHIFT, Place, write_ctm
from bayes_asr.decode.lattices.mbr import MbrHypothesis, TimedWord, decode_mbr
from bayes_asr.decode.lattices.paths import Weights, best_paths, sweep_words
from bayes_asr.decode.lattices.word_times import ReadTimer, read_no_timer
from bayes_asr.kaldi_io.byte_reader import check_name
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.symbols import WordSymbols
from bayes_asr.kaldi_io.text import read_text, write_mapping, write_text


@dataclass(frozen=True)
class RescoreOptions:
    """Pairs of weights, and the outputs besides the best words at each of them.

    nbest: that many best paths; mbr: the words of least expected error, with times, which a timer
    tells as in `write_ctm_at`.
    """

    grid: tuple[Weights, ...]
    nbest: int = 0
    mbr: bool = False
    frame_shift: float = FRAME_SHIFT
    read_timer: ReadTimer = read_no_timer


@dataclass(frozen=True)
class RescoredLattice:
    """The results of one lattice at one pair of weights."""

    utt: str
    words: list[int]
    best: list[list[int]]
    timed: list[TimedWord]
    risk: float


def rescore_lattices(
    lattices: Sequence[Path], words: Path, out: Path, options: RescoreOptions, nj: int = 1
) -> int:
    """Read Kaldi's word lattices (lat.N.gz) at each pair of weights; returns how many there are.

    Writes words.lmwtW.wipP.txt; with `nbest` also nbest.lmwtW.wipP.txt, whose keys are utterance-1,
    utterance-2, ...; with `mbr` the words of least expected error, mbr.lmwtW.wipP.txt, that
    expectation, mbr_risk.lmwtW.wipP.txt, and ctm.lmwtW.wipP with times in seconds, `frame_shift` a
    frame, and confidences.  `words` is the words.txt of the graph.
    """
    symbols = WordSymbols(words)
    rescored = map_utterances(partial(rescore_lattice, options), iter_word_lattices(lattices), nj)
    results = list(follow(rescored, "rescore", total=count_decoded(lattices)))
    if not results:
        raise InputError(f"{', '.join(map(str, lattices))}: hold no lattice; decode anew")
    # All lattices are read before anything is written: a bad one leaves the folder as it is.
    with together(out):
        for k, (lmwt, wip) in enumerate(options.grid):
            name = f"lmwt{lmwt:g}.wip{wip:.1f}"
            write_rescored([row[k] for row in results], symbols, out, name, options)
    return len(results)


def iter_word_lattices(lattices: Iterable[Path]) -> Iterator[tuple[str, CompactLattice]]:
    """Stream the word lattices of several archives.

    InputError for one without a path, and for an utterance that is in two of them.
    """
    names = set[str]()
    for path in lattices:
        for utt, lattice in iter_lattices(Path(path)):
            check_name(utt, names, path)
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


def count_decoded(lattices: Iterable[Path]) -> int | None:
    """The number of lattices by the costs.txt beside them, which `decode` writes; None without one.

    For progress alone: the folder may hold more archives than these.
    """
    folders = {Path(path).parent for path in lattices}
    try:
        costs = [row for at in folders for row in read_text(at / "costs.txt").values()]
    except (OSError, InputError):
        return None
    # An utterance without a path has infinite costs, and no lattice.
    return sum("inf" not in row for row in costs)


def rescore_lattice(
    options: RescoreOptions, utt: str, lattice: CompactLattice
) -> list[RescoredLattice]:
    """Return the results of one lattice, one for each pair of weights."""
    results = []
    words = sweep_words(lattice, options.grid)
    timer = options.read_timer()
    if timer:
        timer.check(utt, lattice)
    for (lmwt, wip), best_words in zip(options.grid, words, strict=True):
        paths = [path.words for path in best_paths(lattice, options.nbest, lmwt, wip)]
        least = MbrHypothesis([], 0.0)
        if options.mbr:
            least = decode_mbr(lattice, lmwt, wip, name=utt, timer=timer)
        results.append(RescoredLattice(utt, best_words, paths, least.words, least.risk))
    return results


def write_rescored(
    results: list[RescoredLattice],
    symbols: WordSymbols,
    out: Path,
    name: str,
    options: RescoreOptions,
) -> None:
    """Write the files of one pair of weights."""

    def write_words(path: Path, hypotheses: Iterable[tuple[str, list[int]]]) -> None:
        write_text(((utt, [symbols[word] for word in words]) for utt, words in hypotheses), path)

    write_words(out / f"words.{name}.txt", ((r.utt, r.words) for r in results))
    if options.nbest:
        ranked = ((f"{r.utt}-{k}", words) for r in results for k, words in enumerate(r.best, 1))
        write_words(out / f"nbest.{name}.txt", ranked)
    if options.mbr:
        least = ((r.utt, [timed.word for timed in r.timed]) for r in results)
        write_words(out / f"mbr.{name}.txt", least)
        write_mapping(((r.utt, f"{r.risk:.7g}") for r in results), out / f"mbr_risk.{name}.txt")
        timed_words = ((r.utt, r.timed) for r in results)
        write_ctm(timed_words, symbols, out / f"ctm.{name}", options.frame_shift)


def write_ctm_at(
    weights: Weights,
    lattices: Sequence[Path],
    words: Path,
    path: Path,
    places: Mapping[str, Place] | None = None,
    nj: int = 1,
    frame_shift: float = FRAME_SHIFT,
    read_timer: ReadTimer = read_no_timer,
) -> None:
    """Write the words of least expected error in word lattices at one pair of weights as a CTM.

    Kaldi: lattice-align-words-lexicon, where there is a timer, and lattice-to-ctm-conf
    --decode-mbr=true; `places`, `frame_shift` as for ctm.write_ctm.
    """
    symbols = WordSymbols(words)
    timed = map_utterances(
        partial(time_words, weights, read_timer), iter_word_lattices(lattices), nj
    )
    shown = follow(timed, path.name, total=count_decoded(lattices))
    write_ctm(shown, symbols, path, frame_shift, places)


def time_words(
    weights: Weights, read_timer: ReadTimer, utt: str, lattice: CompactLattice
) -> tuple[str, list[TimedWord]]:
    """Return the utterance and its words of least expected error."""
    return utt, decode_mbr(lattice, *weights, name=utt, timer=read_timer()).words
