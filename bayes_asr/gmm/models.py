"""Graph, models and features of a process that decodes with Gaussian mixtures."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.search.engine import Engine
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.utterance import ENGINES
from bayes_asr.gmm.alignment import FeatureReader
from bayes_asr.gmm.likelihood import log_likelihoods
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.transition_model import TransitionModel

SEARCH = SearchOptions(
    acoustic_scale=0.083333, beam=13.0, max_active=7000, lattice_beam=6.0, allow_partial=True
)
"""Options of steps/decode.sh, and of the last search of steps/decode_fmllr.sh."""


@dataclass(frozen=True)
class Models:
    """The graph and the model of a job, the features of its data, and the engine of the search.

    `features` have no transforms of speakers; `unadapted` is the model for them.
    """

    job: DecodeJob
    features: FeatureReader
    network: DecodingGraph
    transitions: TransitionModel
    mixtures: Mixtures
    unadapted: Mixtures
    engine: Engine

    @classmethod
    def open(
        cls, features: FeatureReader, job: DecodeJob, engine: str, unadapted: Path
    ) -> "Models":
        """Read graph and models; InputError where they do not fit each other."""
        transitions, mixtures = read_gmm(job.model)
        network = load_decoding_graph(job.graph, job.model)
        unadapted_gmm = mixtures if unadapted == job.model else read_gmm(unadapted)[1]
        if (
            not np.array_equal(unadapted_gmm.offsets, mixtures.offsets)
            or unadapted_gmm.dim != mixtures.dim
        ):
            raise InputError(
                f"{unadapted}: {unadapted_gmm.num_gaussians} Gaussians of {unadapted_gmm.num_pdfs}"
                f" pdfs, not those of {job.model}, {mixtures.num_gaussians} of"
                f" {mixtures.num_pdfs}; take the models of one training"
            )
        return cls(job, features, network, transitions, mixtures, unadapted_gmm, ENGINES[engine])

    @cached_property
    def plain_network(self) -> DecodingGraph:
        """The graph without phones: by it lattices are made deterministic by their words alone.

        So does Kaldi's lattice-determinize-pruned; its decoders do it by phones first.
        """
        return replace(self.network, phone_start=np.zeros_like(self.network.phone_start))

    def score(self, utt: str, x: np.ndarray, mixtures: Mixtures | None = None) -> np.ndarray:
        """Log-likelihoods [T, P] of features [T, D], by one matrix product; InputError for others.

        mixtures: of another model than the job's.
        """
        loglikes = log_likelihoods(mixtures or self.mixtures, x)
        return check_loglikes(self.network, f"{self.job.loglikes}: {utt}", loglikes)
