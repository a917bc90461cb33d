"""The phones that both a run and the experts score: goodness of pronunciation beside accuracy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experts import ScoredWord

from bayes_asr.base.errors import InputError
from bayes_asr.data.directories import locate
from bayes_asr.data.targets.alignments import iter_alignments
from bayes_asr.decode.align.goodness import PhoneScores, PronunciationScorer
from bayes_asr.decode.forward.directory import StreamSource, find_streams, log_likelihoods
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load
from bayes_asr.decode.graph.lang import find_phones_file, read_silence_phones
from bayes_asr.evaluate.score.counts import align
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.text import read_mapping, read_symbols
from bayes_asr.train.runs.configuration import read_configuration


@dataclass(frozen=True)
class ScoredPhones:
    """Phones [N] of a set, those left out that were aligned otherwise than the experts have them.

    goodness: float64 [N]; features: float64 [N, 2M], as of `PhoneScores`; accuracy: the experts',
    0 to 2, [N]; word: the number of its word, [N]; word_accuracy: 0 to 10, [W]; lost: how many were
    left out.
    """

    phone: np.ndarray
    goodness: np.ndarray
    features: np.ndarray
    accuracy: np.ndarray
    speaker: np.ndarray
    group: np.ndarray
    word: np.ndarray
    word_accuracy: np.ndarray
    lost: int


def score_phones(run: Path, name: str, experts: Mapping[str, Sequence[ScoredWord]]) -> ScoredPhones:
    """Score the phones of the set `name` of a run by its alignments in `run`/align_NAME.

    InputError for an utterance that no expert has scored.
    """
    columns: dict[str, list[np.ndarray]] = {}
    word_accuracy: list[float] = []
    expected = 0
    people, groups = _read_people(run, name)
    for utt, scores in _iter_scores(run, name):
        if utt not in experts:
            raise InputError(f"{utt}: no expert has scored it; clone the corpus again")
        words = experts[utt]
        phones = [phone for word in words for phone in word.phones]
        expected += len(phones)
        ours, theirs = match(phones, [scores.names[index] for index in scores.phone])
        accuracy = np.array([a for word in words for a in word.phone_accuracies])
        number = np.repeat(np.arange(len(words)), [len(word.phones) for word in words])
        for key, column in {
            "phone": np.array(phones)[theirs],
            "goodness": scores.gop[ours],
            "features": scores.features[ours],
            "accuracy": accuracy[theirs],
            "speaker": np.full(len(ours), people[utt]),
            "group": np.full(len(ours), groups[utt]),
            "word": len(word_accuracy) + number[theirs],
        }.items():
            columns.setdefault(key, []).append(column)
        word_accuracy += [word.accuracy for word in words]
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    lost = expected - len(joined["phone"])
    return ScoredPhones(**joined, word_accuracy=np.array(word_accuracy), lost=lost)


def match(theirs: Sequence[str], ours: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The places in `ours` and in `theirs` of the phones that are the same in both, in order."""
    i = j = 0
    pairs = []
    for edit in align(theirs, ours):
        if edit.kind == "correct":
            pairs.append((j, i))
        i += edit.ref is not None
        j += edit.hyp is not None
    places = np.array(pairs, dtype=int).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _read_people(run: Path, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The speaker and the age group of each utterance of a set."""
    data = Path(read_configuration(run).data.dir) / "data" / name
    return read_mapping(data / "utt2spk"), read_mapping(data / "utt2age")


def _iter_scores(run: Path, name: str) -> Iterator[tuple[str, PhoneScores]]:
    """The scores of the utterances of a set that are aligned."""
    data = read_configuration(run).data
    directory, lang = run / f"align_{name}", locate(data.graph, data, "graph", announce=False)
    network = load(run)
    if not isinstance(network, LogLikelihoods):
        raise InputError(f"{run}: several networks; name the run of one")
    model = read_transition_model(directory / "final.mdl")
    phones = read_symbols(find_phones_file(lang, directory / "final.mdl"))
    silence = read_silence_phones(lang)
    scorer = PronunciationScorer(model, phones, silence, network.log_priors.numpy())
    aligned = dict(iter_alignments(directory, model))
    directories = find_streams(run, [network], StreamSource(on=name))
    for utt, loglikes in log_likelihoods(network, directories, data.max_skipped):
        if utt in aligned:
            yield utt, scorer.score(loglikes, aligned[utt])
