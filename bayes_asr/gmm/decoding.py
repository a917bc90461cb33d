"""Decoding with Gaussian mixtures, with or without adaptation to each speaker.

Kaldi: steps/decode.sh, steps/decode_fmllr.sh.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import find_files, is_there
from bayes_asr.base.kept_results import KeptResults
from bayes_asr.base.places import refuse_foreign, refuse_read
from bayes_asr.base.processes.pool import map_serially
from bayes_asr.base.shards import Mapper
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.data.features.fmllr_record import describe_adapted
from bayes_asr.data.features.front_end import FEATURES, read_analysis
from bayes_asr.data.features.skipped import report_lacking
from bayes_asr.data.sound.recordings import MAX_SKIPPED
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.search import embedded_decoder
from bayes_asr.decode.search.archive import COSTS, OUTPUTS, WORDS, write_decoding
from bayes_asr.decode.search.embedded_decoder import EmbeddedDecoder, Result, decode_one
from bayes_asr.decode.search.job import DecodedUtterance, DecodeJob, DecodeSummary
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.gmm.adaptation import Adaptation, decode_speaker
from bayes_asr.gmm.features import RAW, SpeakerFeatures, read_pipeline, write_transforms
from bayes_asr.gmm.files import MODEL, find_unadapted
from bayes_asr.gmm.models import SEARCH, Models
from bayes_asr.gmm.resumable import SKIP_OPTION
from bayes_asr.kaldi_io.ark import Moves
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.text import DataDir, write_lines

LM_WEIGHTS = tuple(range(1, 21))
# Results of the utterances of a group, and the transform of their speaker.
SpeakerResults = tuple[list[Result], np.ndarray | None]


@dataclass(frozen=True)
class FeatureTable:
    """The features of a data directory.

    raw: they are what the model reads, so that nothing is done to them; moves: as in `read_scp`.
    """

    data: Path
    raw: bool = False
    moves: Moves = ()
    open_pipe: OpenPipe | None = None

    def read_data_dir(self) -> DataDir:
        """Read the tables of the data directory."""
        return read_data_dir(self.data, open_pipe=self.open_pipe, moves=self.moves)


@dataclass(frozen=True)
class DecodingTask:
    """Inputs of the processes that decode, by file names: each process reads graph and model."""

    table: FeatureTable
    job: DecodeJob
    adaptation: Adaptation | None
    engine: str


def make_job(
    data: Path,
    graph: Path,
    model_dir: Path,
    options: SearchOptions = SEARCH,
    lmwts: Sequence[float] = LM_WEIGHTS,
    wips: Sequence[float] = (0.0,),
    *,
    mbr: bool = False,
) -> DecodeJob:
    """The job of decoding a data directory with the GMM `model_dir`/final.mdl."""
    grid = tuple(pair_weights(lmwts, wips))
    return DecodeJob(str(data), Path(graph), Path(model_dir) / MODEL, options, grid, mbr=mbr)


def decode_data(
    table: FeatureTable,
    job: DecodeJob,
    out: Path,
    *,
    adaptation: Adaptation | None = None,
    max_skipped: float = MAX_SKIPPED,
    mapper: Mapper = map_serially,
    kept: KeptResults | None = None,
) -> DecodeSummary:
    """Decode the features of a data directory with the mixtures of a job of `make_job`.

    Writes in `out` what `decode.search.archive.decode_archive` writes and, with an `adaptation`,
    trans.1: the transforms of the speakers.  Each speaker is one item of `mapper` then, otherwise
    each utterance is; `kept` are the results of an ended call.  Utterances without features are
    named and left out; InputError, before anything is decoded, if they are a larger share than
    `max_skipped`, and where `out` is read, or has files of another program.  Other faults are those
    of `decode_archive`.
    """
    _refuse_folder(out, [table.data, job.graph, job.model.parent])
    task = DecodingTask(table, job, adaptation, choose_engine().name)
    directory = table.read_data_dir()
    lacking = report_lacking({FEATURES: directory}, max_skipped, SKIP_OPTION)
    speakers = {utt: spk for utt, spk in directory.utt2spk.items() if utt not in lacking}
    # Without adaptation each utterance is a group of its own, so that processes share them evenly.
    groups = group_utterances(speakers if adaptation else {utt: utt for utt in speakers})
    decode: partial[Iterator[SpeakerResults]] = partial(mapper, partial(decode_group, task))
    results = kept.go_on(decode, groups.items(), lasts) if kept else decode(groups.items())
    decoder = GmmDecoder(groups, results)
    _, mixtures = read_gmm(job.model)
    sound = read_analysis(table.data)
    record = {
        "model": str(job.model.absolute()),
        "gaussians": mixtures.num_gaussians,
        "parameters": mixtures.num_gaussians * (2 * mixtures.dim + 1),
        "frontend": describe_adapted(sound) if sound and adaptation else sound,
    }
    try:
        return write_decoding(job, decoder, Path(out), record)
    finally:
        open_models.cache_clear()


def _refuse_folder(out: Path, read: Iterable[Path]) -> None:
    """InputError where a folder is read, or has files that no decoding of ours has left."""
    refuse_read(out, read)
    # Every decoding leaves costs.txt, which Kaldi's scripts do not write.
    if not is_there(out / COSTS):
        files = [path.name for name in (WORDS, *OUTPUTS) for path in find_files(out, name)]
        refuse_foreign(out, files, "gmm decode")


def lasts(results: SpeakerResults) -> bool:
    """Whether decoding the utterances of a group once more gives the same."""
    return all(map(embedded_decoder.lasts, results[0]))


def group_utterances(names: dict[str, str]) -> dict[str, list[str]]:
    """The utterances of each name, in their order."""
    groups: dict[str, list[str]] = {}
    for utt, name in names.items():
        groups.setdefault(name, []).append(utt)
    return groups


class GmmDecoder:
    """Yields decoded utterances, group by group, and writes lattices and transforms."""

    def __init__(self, names: Iterable[str], decoded: Iterator[SpeakerResults]) -> None:
        """Take the names of the groups, and their results in the same order."""
        self._names, self._decoded = names, decoded

    def decode(self, job: DecodeJob, directory: Path) -> Iterator[DecodedUtterance]:
        """Yield every utterance and write `directory`/lat.1.gz; at the end trans.1 and num_jobs."""
        transforms: dict[str, np.ndarray] = {}

        def list_results() -> Iterator[Result]:
            for name, (results, transform) in zip(self._names, self._decoded, strict=True):
                if transform is not None:
                    transforms[name] = transform
                yield from results

        yield from EmbeddedDecoder(list_results()).decode(job, directory)
        if transforms:
            write_transforms(transforms.items(), directory)
        write_lines([1], directory / "num_jobs")

    def find_trouble(self) -> str:
        """Find none: the search is there if `choose_engine` found one."""
        return ""


def decode_group(task: DecodingTask, name: str, utts: list[str]) -> SpeakerResults:
    """Decode the utterances of the speaker `name`, or one utterance without adaptation."""
    models = open_models(task)
    if task.adaptation:
        return decode_speaker(models, task.adaptation, name, utts)
    return [decode_unadapted(models, utt) for utt in utts], None


def decode_unadapted(models: Models, utt: str) -> Result:
    """Decode an utterance without adaptation."""
    loglikes: np.ndarray | InputError
    try:
        loglikes = models.score(utt, models.features[utt])
    except InputError as error:
        loglikes = error
    return decode_one(models.network, models.job, models.engine.name, utt, loglikes)


@lru_cache(1)
def open_models(task: DecodingTask) -> Models:
    """Open graph, model and features, once in each process."""
    model = task.job.model
    unadapted = find_unadapted(model.parent) if task.adaptation else model
    pipeline = RAW if task.table.raw else read_pipeline(model.parent)
    features = SpeakerFeatures(task.table.read_data_dir(), pipeline, open_pipe=task.table.open_pipe)
    models = Models.open(features, task.job, task.engine, unadapted)
    features.check_dimension(models.mixtures.dim, model)
    return models
