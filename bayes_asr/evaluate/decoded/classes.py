"""Classes of utterances by a run: decisions out of posteriors, and their errors."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there, replacing
from bayes_asr.config.decoding_keys import ScoreConfig
from bayes_asr.data.targets.classes import check_class
from bayes_asr.decode.forward.attention import weigh_frames
from bayes_asr.decode.forward.directory import ForwardOptions, StreamSource, forward, open_source
from bayes_asr.decode.forward.interface import Output, name_archive
from bayes_asr.decode.forward.log_likelihoods import load
from bayes_asr.decode.search.search_record import Record
from bayes_asr.evaluate.score.identification import UNDECIDED, ClassifiedUtterances
from bayes_asr.evaluate.score.scores import write_scores
from bayes_asr.evaluate.score.sweeps import read_values
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.byte_reader import parse_real
from bayes_asr.kaldi_io.text import read_mapping, write_mapping
from bayes_asr.train.runs.trained_network import TrainedNetwork

POSTERIORS = Output(kind="log-posteriors")


class Decisions(NamedTuple):
    """The log posteriors [1, L] of utterances, and the numbers of the classes decided for."""

    network: TrainedNetwork
    posteriors: Mapping[str, np.ndarray]
    numbers: Mapping[str, int]


def classify(
    run: Path,
    network: TrainedNetwork,
    source: StreamSource,
    out: Path,
    attention: str | None = None,
    draw: Collection[str] = (),
) -> Decisions:
    """Write posteriors, classes.txt and `decisions` of utterances into a folder.

    attention: a layer whose weights of frames are written too; draw: utterances of which these are
    drawn above the features.
    """
    forward(run, out, source, ForwardOptions(POSTERIORS))
    if attention:
        _write_attention(run, attention, source, draw, out)
    posteriors = dict(iter_matrices(out / f"{name_archive(POSTERIORS.kind)}.ark"))
    numbers = {utt: int(matrix[0].argmax()) for utt, matrix in posteriors.items()}
    names = network.classes
    write_mapping(((name, number) for number, name in enumerate(names)), out / "classes.txt")
    write_mapping(((utt, names[number]) for utt, number in numbers.items()), out / "decisions")
    return Decisions(network, posteriors, numbers)


def _write_attention(
    run: Path, layer: str, source: StreamSource, draw: Collection[str], out: Path
) -> None:
    """Write attention.{ark,scp}, and pictures."""
    network = load(run, output=POSTERIORS)
    features = open_source(run, network, source)
    for utt in draw:
        if utt not in features.utterances:
            raise InputError(f"--draw {utt}: there is no such utterance")
    archive = out / "attention.ark"
    write_matrices(weigh_frames(network, features, layer), archive, archive.with_suffix(".scp"))
    for utt, weights in iter_matrices(archive):
        if utt in draw:
            # Only pictures need matplotlib.
            from bayes_asr.evaluate.report.figures import draw_attention, save_attention

            figure = draw_attention(utt, features.first.read(utt), weights[:, 0])
            save_attention(figure, utt, out)


@dataclass(frozen=True)
class ClassificationResult:
    """Classified utterances of a set, and those near each nominal duration, in seconds.

    speakers: of all utterances.
    """

    set: str | None
    utterances: ClassifiedUtterances
    durations: Mapping[float, ClassifiedUtterances]
    speakers: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the utterances, as plain data."""
        return {
            "set": self.set,
            **self.utterances.as_dict(),
            "durations": {f"{seconds:g}": u.as_dict() for seconds, u in self.durations.items()},
        }

    def lines(self, name: str) -> Iterator[str]:
        """A line of all, which begins with `name`, and of each duration."""
        yield self.utterances.line(name)
        for seconds, utterances in self.durations.items():
            yield utterances.line(f"{seconds:g} s")

    def write(self, figures: Path, score_file: Path, cluster: str, network: Record) -> None:
        """Write the figures as JSON, and the counts as a score file.

        cluster: what a speaker of utt2spk is; network: the record of that of the run.
        """
        with replacing(figures) as temporary:
            text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", "utf-8")
        score = self.utterances.score(self.set, self.speakers)
        write_scores([replace(score, cluster=cluster, decoded=dict(network))], score_file)


def read_classes(directories: Sequence[Path], file: str) -> dict[str, str]:
    """The classes of utterances in data directories; empty where these have no such file."""
    files = [directory / file for directory in directories]
    return {utt: name for f in files if is_there(f) for utt, name in read_mapping(f).items()}


def check_decisions(
    decisions: Decisions,
    classes: Mapping[str, str],
    directories: Sequence[Path],
    config: ScoreConfig,
    set_name: str | None,
) -> ClassificationResult:
    """Compare decisions with the classes of utterances, which must all be known.

    directories: data directories with utt2spk and, for durations, utt2dur. Their utterances that
    have a class, but no features and so no decision, are errors.
    """
    network = decisions.network
    numbers = {name: number for number, name in enumerate(network.classes)}
    for utt in decisions.numbers:
        if utt not in classes:
            reason = f"{utt} has no class to compare with; write it there"
            raise InputError(f"{directories[0]}: {reason}")
    utterances = _list_utterances(decisions, classes, directories)
    for utt in utterances:
        check_class(classes[utt], utt, directories[0], numbers)
    nothing = np.full_like(next(iter(decisions.posteriors.values())), -np.inf)
    classified = ClassifiedUtterances(
        network.classes,
        utterances,
        # Likelihoods, but for the probability of the features: posteriors over priors.
        np.concatenate([decisions.posteriors.get(utt, nothing) for utt in utterances])
        - network.log_priors.numpy(),
        np.array([decisions.numbers.get(utt, UNDECIDED) for utt in utterances]),
        np.array([numbers[classes[utt]] for utt in utterances]),
    )
    speakers = read_values([directory / "utt2spk" for directory in directories], utterances)
    durations: dict[float, ClassifiedUtterances] = {}
    if config.durations:
        tables = [directory / "utt2dur" for directory in directories]
        # Kaldi may have counted the frames of features, which not all utterances have.
        named = {utt for table in tables for utt in read_mapping(table)} | decisions.numbers.keys()
        timed = [place for place, utt in enumerate(utterances) if utt in named]
        table = read_values(tables, [utterances[place] for place in timed])
        seconds = {utt: _parse_seconds(text, utt, tables) for utt, text in table.items()}
        durations = classified.take(np.array(timed)).by_duration(seconds, config.durations)
    return ClassificationResult(set_name, classified, durations, speakers)


def _list_utterances(
    decisions: Decisions, classes: Mapping[str, str], directories: Sequence[Path]
) -> list[str]:
    """The utterances that were decided, and those of the directories that have a class alone."""
    listed = [utt for path in directories for utt in read_mapping(path / "utt2spk")]
    if all(utt in decisions.numbers for utt in listed if utt in classes):
        return list(decisions.numbers)
    # In the order of a run that has features of them, as Kaldi sorts all tables alike.
    return [utt for utt in listed if utt in classes]


def _parse_seconds(text: str, utt: str, tables: Sequence[Path]) -> float:
    try:
        seconds = parse_real(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        where = " and ".join(map(str, tables))
        raise InputError(f"{where}: {utt} lasts {text!r}, not a number of seconds above 0")
    return seconds
