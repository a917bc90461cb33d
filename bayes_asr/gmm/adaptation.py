"""Decoding of the utterances of a speaker with fMLLR, as by Kaldi's steps/decode_fmllr.sh.

A search with the speaker-independent model gives a first transform. A search with features that it
maps gives a second transform on top. With both the lattices are scored anew.
"""

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import cmvn_statistics
from bayes_asr.decode.graph.lang import read_silence_ids
from bayes_asr.decode.lattices.aligned import find_times
from bayes_asr.decode.lattices.posteriors import compute_posteriors
from bayes_asr.decode.search.embedded_decoder import Result, record_result
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.utterance import (
    DecodeResult,
    choose_engine,
    read_lattice,
    search_lattice,
)
from bayes_asr.gmm.affine import apply_transform, compose, identity
from bayes_asr.gmm.features import Pipeline, read_pipeline
from bayes_asr.gmm.files import MODEL, find_unadapted
from bayes_asr.gmm.fmllr import MIN_COUNT, FmllrStatistics, fit_speaker
from bayes_asr.gmm.models import SEARCH, Models
from bayes_asr.gmm.occupation import Occupation, PdfWeights
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from bayes_asr.kaldi_io.mixtures import Mixtures


@dataclass(frozen=True)
class Adaptation:
    """Options of the adaptation to speakers; the defaults are those of steps/decode_fmllr.sh.

    silence: phone-ids, whose frames count with `silence_weight`; min_count: frames of a speaker
    below which nothing is estimated; first_beam, first_max_active: of the search without a
    transform; posterior_beam: of the lattices that the second transform is estimated from.
    """

    silence: tuple[int, ...]
    silence_weight: float = 0.01
    min_count: float = MIN_COUNT
    first_beam: float = 10.0
    first_max_active: int = 2000
    posterior_beam: float = 4.0


@dataclass(frozen=True)
class FirstPassResult:
    """Result of the search with the first transform: a lattice of an utterance, or an error.

    reached: whether the search ended in a final state.
    """

    utt: str
    frames: int = 0
    lattice: Lattice | None = None
    reached: bool = False
    fault: InputError | None = None


def decode_speaker(
    models: Models, adaptation: Adaptation, speaker: str, utts: list[str]
) -> tuple[list[Result], np.ndarray]:
    """The results of the utterances of a speaker, and his transform float32 [D, D+1].

    State-level lattices wait on disk for the second transform.
    """
    with TemporaryFile() as spool:
        transform = estimate_transform(
            models, adaptation, speaker, utts, lambda result: pickle.dump(result, spool)
        )
        # Pass 3: only the acoustic costs change, so that no third search is needed.
        spool.seek(0)
        results = [rescore(models, pickle.load(spool), transform) for _ in utts]  # noqa: S301 - ours
    return results, transform


def estimate_transform(
    models: Models,
    adaptation: Adaptation,
    speaker: str,
    utts: Iterable[str],
    keep: Callable[[FirstPassResult], object],
) -> np.ndarray:
    """The transform float32 [D, D+1] of a speaker by two searches; `keep` gets those of the second.

    The identity, with a warning, where there is too little speech, and as in `fit_speaker`.
    """
    # Pass 1: the speaker-independent model and a narrow beam.
    source = f"{models.job.loglikes}: {speaker}"
    dim = models.mixtures.dim
    statistics = FmllrStatistics.zeros(dim)
    for utt in utts:
        accumulate_unadapted(models, adaptation, utt, statistics)
    first_transform = fit_speaker(source, statistics, adaptation.min_count)
    # Pass 2: features with the first transform.
    statistics = FmllrStatistics.zeros(dim)
    for utt in utts:
        keep(accumulate_adapted(models, adaptation, utt, first_transform, statistics))
    second_transform = fit_speaker(source, statistics, adaptation.min_count)
    transform = compose(second_transform, first_transform, affine=True)
    if statistics.count <= adaptation.min_count and np.array_equal(transform, identity(dim)):
        LOGGER.warning(
            "%s: %.0f frames of speech, and a transform takes more than %g: not adapted",
            source,
            statistics.count,
            adaptation.min_count,
        )
    return transform


@dataclass(frozen=True)
class SpeakerAdapter:
    """fMLLR of speakers whose cepstra are at hand, by the models and the graph of a folder.

    pipeline: from cepstra to the features of `models` that no speaker's transform has mapped.
    """

    pipeline: Pipeline
    models: Models
    adaptation: Adaptation

    @classmethod
    def open(cls, model_dir: Path) -> "SpeakerAdapter":
        """Read the models of a folder, and its graph, with which its recipe decoded."""
        job = DecodeJob(str(model_dir), model_dir / "graph", model_dir / MODEL, SEARCH)
        models = Models.open({}, job, choose_engine().name, find_unadapted(model_dir))
        return cls(read_pipeline(model_dir), models, Adaptation(read_silence_ids(job.graph)))

    def estimate(
        self, speaker: str, cepstra: Mapping[str, np.ndarray]
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The map from cepstra [T, F] to adapted features [T, D] of a speaker, by utterances."""
        statistics = cmvn_statistics(cepstra.values())
        self.pipeline.find_dim(statistics.shape[1] - 1, Path(self.models.job.loglikes))

        def prepare(x: np.ndarray) -> np.ndarray:
            return self.pipeline.transform(self.pipeline.front_end.prepare(x, statistics))

        features = {utt: prepare(x) for utt, x in cepstra.items()}
        models = replace(self.models, features=features)
        transform = estimate_transform(models, self.adaptation, speaker, features, lambda _: None)
        return lambda x: apply_transform(transform, prepare(x))


def accumulate_unadapted(
    models: Models, adaptation: Adaptation, utt: str, statistics: FmllrStatistics
) -> None:
    """Add the statistics of a speaker-independent search of an utterance; none where it fails.

    The speaker-independent model also gives the posteriors of Gaussians, as in gmm-post-to-gpost.
    """
    options = replace(
        models.job.options, beam=adaptation.first_beam, max_active=adaptation.first_max_active
    )
    network, model = models.network, models.unadapted
    try:
        x = models.features[utt]
        scores = models.score(utt, x, model)
        lattice, _ = search_lattice(network, scores, options, models.engine)
        if lattice is not None:
            words = models.engine.determinize(lattice, network.phone_start, options.lattice_beam)
            _add(models, adaptation, statistics, x, words, model)
    except (InputError, MemoryError) as error:
        LOGGER.warning("%s; it says nothing of its speaker", error)


def accumulate_adapted(
    models: Models,
    adaptation: Adaptation,
    utt: str,
    transform: np.ndarray,
    statistics: FmllrStatistics,
) -> FirstPassResult:
    """Search with the first transform of the speaker, and add the statistics of an utterance."""
    options, network = models.job.options, models.plain_network
    try:
        x = apply_transform(transform, models.features[utt])
        lattice, reached = search_lattice(network, models.score(utt, x), options, models.engine)
        if lattice is not None:
            words = models.engine.determinize(
                lattice, network.phone_start, adaptation.posterior_beam
            )
            _add(models, adaptation, statistics, x, words, models.mixtures)
    except (InputError, MemoryError) as error:
        return FirstPassResult(utt, fault=InputError(str(error)))
    return FirstPassResult(utt, len(x), lattice, reached)


def _add(
    models: Models,
    adaptation: Adaptation,
    statistics: FmllrStatistics,
    x: np.ndarray,
    words: CompactLattice,
    divider: Mixtures,
) -> None:
    """Add the frames of a word lattice of scaled costs; `divider` divides them among Gaussians."""
    posteriors = compute_posteriors(words, 1.0)
    pdfs = PdfWeights.from_posteriors(
        models.transitions,
        posteriors.frame,
        posteriors.tid,
        posteriors.share,
        adaptation.silence,
        adaptation.silence_weight,
    )
    statistics.add(models.mixtures, x, Occupation.from_pdfs(divider, x, pdfs))


def rescore(models: Models, first_pass: FirstPassResult, transform: np.ndarray) -> Result:
    """Replace the acoustic costs of a lattice by those of features with the whole transform."""
    options, network, lattice = models.job.options, models.plain_network, first_pass.lattice

    def decode() -> DecodeResult:
        if first_pass.fault:
            raise first_pass.fault
        rescored = None
        if lattice is not None:
            x = apply_transform(transform, models.features[first_pass.utt])
            scores = np.float32(options.acoustic_scale) * models.score(first_pass.utt, x)
            rescored = replace_acoustic(lattice, scores, models.transitions.pdf)
        return read_lattice(
            network, first_pass.utt, rescored, first_pass.reached, options, models.engine
        )

    return record_result(models.job, first_pass.utt, first_pass.frames, decode)


def replace_acoustic(lattice: Lattice, scores: np.ndarray, pdfs: np.ndarray) -> Lattice:
    """Return the lattice with costs by scaled log-likelihoods [T, P], as gmm-rescore-lattice.

    pdfs: of each transition-id.
    """
    # An arc that emits has the frame of its source state; epsilon arcs cost nothing acoustically.
    source = np.repeat(np.arange(lattice.num_states), np.diff(lattice.offsets))
    emits = np.flatnonzero(lattice.ilabel)
    times = find_times(source, lattice.nextstate, lattice.ilabel > 0, lattice.num_states)
    acoustic = np.zeros(len(lattice.acoustic), np.float32)
    acoustic[emits] = -scores[times[source[emits]], pdfs[lattice.ilabel[emits]]]
    return replace(lattice, acoustic=acoustic)
