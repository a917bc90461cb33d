"""Log-likelihoods: log posterior minus log prior of every pdf at every frame."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from bayes_asr.config import Config, FeatureConfig
from bayes_asr.config import load as load_config
from bayes_asr.data.alignments import log_priors, read_counts
from bayes_asr.data.features import prepared, speaker_normalised
from bayes_asr.errors import InputError
from bayes_asr.log import LOGGER
from bayes_asr.nn.model import AcousticModel
from bayes_asr.tables.ark import write_matrices
from bayes_asr.tables.reader import OpenPipe
from bayes_asr.tables.text import DataDir, read_data_dir
from bayes_asr.train import checkpoint
from bayes_asr.train.corpus import data_dir, features_of, report_skipped

BATCH_SEQUENCES, BATCH_FRAMES = 16, 20_000


class LogLikelihoods(nn.Module):
    """A trained network: features [T, F] -> log p(pdf|x) - log p(pdf) [T, P], unscaled float32.

    Deltas, context and normalisation of the run are applied here, so the features are those on
    disk. It computes in double precision: in single, the sums of a matrix product depend on the
    size of the batch, and the neighbours of an utterance moved its log-likelihoods by 1.1e-5 in a
    trained network of 3 x 256 units.
    """

    mean: Tensor
    deviation: Tensor
    log_priors: Tensor

    def __init__(self, content: dict[str, Any], features: FeatureConfig) -> None:
        """Build it from the content of a checkpoint."""
        super().__init__()
        self.features = features
        self.model: AcousticModel = checkpoint.built_model(content)
        for name in ("mean", "deviation", "log_priors"):
            self.register_buffer(name, content[name])
        self.double().eval().requires_grad_(False)

    def forward(self, features: Tensor | np.ndarray, cmvn: np.ndarray | None = None) -> Tensor:
        """Log-likelihoods [T, P] of one utterance [T, F].

        cmvn: Kaldi's CMVN statistics [2, F+1] of the speaker, needed where the run normalises by
        speaker.
        """
        matrix, options = np.asarray(features, dtype=np.float32), self.features
        if options.cmvn != "none":
            if cmvn is None:
                raise ValueError(
                    f"this run normalises by speaker (features.cmvn = {options.cmvn}): pass the"
                    " speaker's CMVN statistics [2, F+1] as `cmvn`"
                )
            matrix = speaker_normalised(matrix, options.cmvn, cmvn)
        left, right = options.left_context, options.right_context
        return self.of_prepared([prepared(matrix, order=options.deltas, left=left, right=right)])[0]

    def of_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'] with deltas and context already."""
        inputs = [
            (torch.from_numpy(x).to(self.mean) - self.mean) / self.deviation for x in matrices
        ]
        posteriors = self.model.log_posteriors(inputs)
        return [(log_posterior - self.log_priors).float() for log_posterior in posteriors]


def load(run: Path | str, counts: Path | None = None) -> LogLikelihoods:
    """Load the best network of a run.

    counts: a file of pdf counts, as Kaldi's analyze-counts writes it, instead of the training ones.
    """
    run = Path(run)
    if not (run / "config.yaml").exists():
        raise InputError(f"{run}: not a run directory, it has no config.yaml; train first")
    content = checkpoint.read(run / "best.pt")
    if counts is not None:
        pdfs = content["architecture"]["outputs"][0]
        content["log_priors"] = torch.from_numpy(log_priors(read_counts(counts, pdfs)))
    try:
        return LogLikelihoods(content, load_config([run / "config.yaml"]).features)
    except (RuntimeError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{run / 'best.pt'}: does not hold the network that it describes"
            f" ({' '.join(str(error).split())[:100]}); train it again"
        ) from None


def forward(
    run: Path,
    out: Path,
    *,
    data: Path | None = None,
    on: str | None = None,
    counts: Path | None = None,
    max_skipped: float = 0.0,
    open_pipe: OpenPipe | None = None,
) -> int:
    """Write `out`/loglikes.{ark,scp} for the Kaldi directory `data` or the run's own set `on`.

    Every utterance is computed, aligned or not. Of those of utt2spk a share of `max_skipped` may
    lack features; they are named. Returns how many are written.
    """
    network = load(run, counts)
    config = load_config([run / "config.yaml"])
    if data:
        directory = read_data_dir(data, open_pipe=open_pipe)
    else:
        directory = data_dir(config, on or "dev", open_pipe)
    items = log_likelihoods(network, directory, config, max_skipped, open_pipe)
    written = write_matrices(items, out / "loglikes.ark", out / "loglikes.scp")
    LOGGER.info("wrote the log-likelihoods of %d utterances to %s", written, out / "loglikes.scp")
    return written


def log_likelihoods(
    network: LogLikelihoods,
    data: DataDir,
    config: Config,
    max_skipped: float,
    open_pipe: OpenPipe | None = None,
    limited_by: str = "--max-skipped",
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield utterances and their log-likelihoods [T, P], computed a few utterances at a time.

    Those of utt2spk that lack features are named first; InputError if they are a larger share than
    `max_skipped`, the message calling that limit `limited_by`.
    """
    features = features_of(data, config.features, open_pipe)
    why, total = f"no features in {data.path}", len(data.utt2spk)
    report_skipped(why, features.missing, total, max_skipped, limited_by)
    utterances = tqdm(features.utterances, desc="forward", unit="utt", leave=False, disable=None)
    expected = len(network.mean)
    for group in _groups((utt, features[utt]) for utt in utterances):
        for utt, matrix in group:
            if matrix.shape[1] != expected:
                raise InputError(
                    f"{features.where(utt)}: {utt} has {matrix.shape[1]} dimensions, but the"
                    f" network was trained on {expected}; use the features it was trained on"
                )
        computed = network.of_prepared([matrix for _, matrix in group])
        for (utt, _), loglikes in zip(group, computed, strict=True):
            yield utt, loglikes.numpy()


def _groups(utterances: Iterable[tuple[str, np.ndarray]]) -> Iterator[list[tuple[str, np.ndarray]]]:
    group: list[tuple[str, np.ndarray]] = []
    frames = 0
    for item in utterances:
        if group and (len(group) == BATCH_SEQUENCES or frames + len(item[1]) > BATCH_FRAMES):
            yield group
            group, frames = [], 0
        group.append(item)
        frames += len(item[1])
    if group:
        yield group
