"""Log-likelihoods of features by a trained network, or another output of it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from bayes_asr.base.errors import InputError, name_some
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import FrontEnd, join_streams, split_streams
from bayes_asr.data.features.streaming import StreamingFeatures
from bayes_asr.data.targets.alignments import read_counts
from bayes_asr.data.targets.target import log_priors
from bayes_asr.decode.forward.average import AveragedNetwork
from bayes_asr.decode.forward.exportable import ExportableStep, ExportableUtterance
from bayes_asr.decode.forward.interface import (
    DECODED,
    KINDS,
    LOG_LIKELIHOODS,
    CmvnStatistics,
    Matrix,
    Output,
    StreamFeatures,
    name_streams,
)
from bayes_asr.decode.forward.stream import StreamingLogLikelihoods
from bayes_asr.nn.frames import CPU, PackedFrames, describe_stride, pack, to_device, unpack
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.linear import Linear
from bayes_asr.nn.network import AcousticModel, States
from bayes_asr.nn.part import extract_head, extract_layer
from bayes_asr.train.runs.combination import Combination, read_combination
from bayes_asr.train.runs.trained_network import TrainedNetwork, read_network

BLOCK_FRAMES = 1000


class LogLikelihoods(nn.Module):
    """A trained network: features [T, F] -> log p(pdf|x) - log p(pdf) [T, P], unscaled float32;
    or the posteriors of its first head, or where it has none, its last layer [T, H].

    A network that classifies utterances has one row of an utterance [1, P]. One of lattice-free
    MMI has a row for each `output_stride` frames, whose priors are 0: its outputs stand for
    log-likelihoods, and what softmax takes from all outputs of a frame changes no path against
    another.
    A network of several streams takes the features of each, by name, each at its own rate. The
    front end of the run is applied here, so the features are those on disk.

    Neighbours of an utterance do not show in its log-likelihoods. A stack that compiled code
    computes is in single precision: it adds up in one order. Others, and the heads, are in double:
    torch's sums depend on the size of the batch, which in single precision moved log-likelihoods by
    1.1e-5, in a trained network of 3 x 256 units. Heads in single precision would put them 9e-5
    from those of double, three times as far as the layers do. A GPU computes all of it in double.
    """

    log_priors: Tensor

    def __init__(
        self,
        network: TrainedNetwork,
        kind: str | None = LOG_LIKELIHOODS,
        device: torch.device = CPU,
    ) -> None:
        """Take the network of a run; kind: what is made of log-posteriors, of `KINDS`.

        Without a head there is none. device: where outputs are computed, and lie.
        """
        super().__init__()
        self.kind = kind
        self.front_ends: Mapping[str, FrontEnd] = network.front_ends
        self.model: AcousticModel = network.model
        self.speakers = network.speakers
        self.register_buffer("log_priors", network.log_priors)
        self.to(device)
        # Everything in double precision first; then what compiled code computes back in single.
        steady = self.model.batch_invariant
        self.double().eval().requires_grad_(False)
        if steady:
            self.model.layers.float()
            self.model.make_batch_invariant()
        self._unadapted = {name: p.clone() for name, p in self.model.activation_parameters.items()}

    def set_speaker(self, speaker: str | None) -> None:
        """Compute as for a speaker whose activations were adapted, or else as for anybody."""
        self.model.set_activations(self.speakers.get(speaker or "", self._unadapted))

    def warn_unadapted(self, directory: Path, speakers: Iterable[str]) -> None:
        """Say who is computed as anybody where others have activations of their own."""
        everybody = set(speakers)
        strangers = sorted(everybody - self.speakers.keys())
        if self.speakers and strangers:
            LOGGER.warning(
                "%s: %d of %d speakers have no activations of their own in this run, and are"
                " computed as anybody: %s",
                *(directory, len(strangers), len(everybody), name_some(strangers)),
            )

    @property
    def device(self) -> torch.device:
        """The device that computes."""
        return self.log_priors.device

    @property
    def size(self) -> int:
        """The number of values of a frame."""
        if not self.model.outputs:
            return cast(Layer, self.model.layers[-1]).outputs
        return cast(Linear, self.model.heads[0]).out_features

    def forward(
        self, features: StreamFeatures | None = None, cmvn: CmvnStatistics = None, **streams: Matrix
    ) -> Tensor:
        """Log-likelihoods [T, P] of one utterance [T, F].

        Several streams are a mapping, or arguments by name: `network(features=x, fbank=y)`. cmvn:
        Kaldi's CMVN statistics [2, F+1] of the speaker, needed of each stream that the run
        normalises by speaker.
        """
        return self.compute_prepared(
            [self.prepare(name_streams(self.front_ends, features, streams), cmvn)]
        )[0]

    def prepare(self, features: Mapping[str, Matrix], cmvn: CmvnStatistics = None) -> np.ndarray:
        """The prepared streams of an utterance, side by side [T, F'], for `compute_prepared`.

        ValueError where a stream is of another length than the first, or of another width;
        InputError where one has no frames.
        """
        stats = self._name_statistics(cmvn)
        _check_frames([features[name] for name in self.front_ends])
        prepared = {
            name: front_end.prepare(self._check_features(name, features[name]), stats.get(name))
            for name, front_end in self.front_ends.items()
        }
        frames = len(next(iter(prepared.values())))
        for name, front_end in self.front_ends.items():
            if not front_end.fits(len(prepared[name]), frames):
                raise ValueError(
                    f"{name} has {len(prepared[name])} frames, which do not go with {frames} of"
                    f" {next(iter(prepared))} at subsampling {front_end.subsampling}"
                )
        return join_streams(self.front_ends, prepared)

    def stream(self, cmvn: CmvnStatistics = None) -> StreamingLogLikelihoods:
        """A stream of utterances [T, F] in chunks; cmvn: as in `forward`.

        InputError if log-likelihoods of this network depend on all later frames.
        """
        self.check_causal()
        stats = self._name_statistics(cmvn)
        for name, front_end in self.front_ends.items():
            front_end.check_speaker(stats.get(name))

        def normalise_speaker(features: StreamFeatures) -> dict[str, np.ndarray]:
            return {
                name: self.front_ends[name].normalise_speaker(
                    self._check_features(name, x), stats.get(name)
                )
                for name, x in name_streams(self.front_ends, features, {}).items()
            }

        arriving = StreamingFeatures(self.front_ends)
        return StreamingLogLikelihoods(self.advance, normalise_speaker, arriving)

    def plain(self) -> ExportableUtterance:
        """The same as plain torch in single precision, which `torch.export` can write down."""
        return ExportableUtterance(self.model, self.front_ends, self.log_priors)

    def plain_step(self) -> ExportableStep:
        """The same for a few frames at a time; InputError where the network looks ahead."""
        self.check_causal()
        return ExportableStep(self.model, self.front_ends, self.log_priors)

    @torch.no_grad()
    def compute_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'] that `prepare` has prepared; InputError for
        one of no frames.
        """
        _check_frames(matrices)
        inputs = [self._inputs(matrix) for matrix in matrices]
        packed = {name: pack([x[name] for x in inputs]) for name in self.front_ends}
        # All streams have the frames and the order of the first: sorted by length, packed by time.
        _, packed_frames, order = next(iter(packed.values()))
        frames = PackedFrames(packed_frames.lengths, self.device)
        streams = {name: to_device(x_NF, self.device) for name, (x_NF, *_) in packed.items()}
        hidden_NH = self.model.hidden(streams, frames)
        return [
            self._read_out(hidden)
            for hidden in unpack(hidden_NH, self.model.output_frames(frames), order)
        ]

    @torch.no_grad()
    def advance(self, matrix: np.ndarray, states: States) -> tuple[Tensor, States]:
        """Log-likelihoods [T, P] of the next frames [T, F'], as `compute_prepared`.

        states: what the call for the frames before returned beside its log-likelihoods, [] where
        there are none before.
        """
        if not len(matrix):
            return torch.empty(0, self.size), states
        streams = {name: to_device(x, self.device) for name, x in self._inputs(matrix).items()}
        hidden, states = self.model.advance(streams, states)
        return self._read_out(hidden), states

    def check_causal(self) -> None:
        """InputError if log-likelihoods depend on all later frames: `advance` needs that they do
        not.
        """
        if self.model.output_stride > 1:
            raise InputError(
                f"this network has outputs of {describe_stride(self.model.output_stride)}, which"
                " are not computed in chunks: give whole utterances"
            )
        if self.model.looks_ahead:
            raise InputError(
                "this network reads an utterance from its end too"
                f" ({', '.join(self.model.lookahead_layers())}), so it cannot be computed in"
                " chunks: train one with model.bidirectional: false (and model.smooth: false), and"
                " in model.stack with causal: true, stride: 1 and no instance norm"
            )

    def _name_statistics(self, cmvn: CmvnStatistics) -> Mapping[str, np.ndarray]:
        if cmvn is None or isinstance(cmvn, Mapping):
            return cmvn or {}
        return {next(iter(self.front_ends)): cmvn}

    def _check_features(self, name: str, features: Matrix) -> np.ndarray:
        """Features as float32 [T, F]; ValueError for those of another shape, or not finite."""
        matrix = np.asarray(features, dtype=np.float32)
        width = self.front_ends[name].stored_size
        if matrix.ndim != 2 or matrix.shape[1] != width:
            shape = list(matrix.shape)
            raise ValueError(f"{name} are {shape}, but the network reads [T, {width}]")
        strange = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(strange):
            raise ValueError(
                f"{name} are not finite in {len(strange)} of {len(matrix)} frames, first in frame"
                f" {strange[0]}; correct or leave them out"
            )
        return matrix

    def _inputs(self, matrix: np.ndarray) -> dict[str, Tensor]:
        """The inputs of the layers of each stream [T, F_s], in their precision, on the CPU."""
        like = next(self.model.parameters(), self.log_priors)
        precision = np.float64 if like.dtype == torch.float64 else np.float32
        prepared = split_streams(self.front_ends, matrix.astype(precision))
        return {
            name: torch.from_numpy(front_end.normalise(prepared[name])).to(like.dtype)
            for name, front_end in self.front_ends.items()
        }

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Log-likelihoods [T, P] by what the heads read [T, D*H]; in double precision only a block
        of frames at a time.
        """
        if self.kind is None:
            return hidden.float()
        # Logits [T, P] in double precision of an hour of speech would not fit into memory.
        make, blocks = KINDS[self.kind], hidden.split(BLOCK_FRAMES)
        posteriors = (self.model.read_out(block.to(self.log_priors)) for block in blocks)
        computed = (make(of_block, self.log_priors).float() for of_block in posteriors)
        return torch.cat(list(computed))


def _check_frames(matrices: Sequence[Matrix]) -> None:
    if not all(map(len, matrices)):
        raise InputError("an utterance has 0 frames; give at least one, or leave it out")


def load(
    run: Path | str,
    counts: Path | None = None,
    output: Output = DECODED,
    device: torch.device = CPU,
) -> LogLikelihoods:
    """Load the best network of a run.

    counts: a file of pdf counts, as Kaldi's analyze-counts writes it, instead of the training ones;
    output: what it computes; device: where.
    """
    network = read_network(Path(run))
    part = take_output(network, output, counts)
    return LogLikelihoods(part, choose_kind(network.model, output), device)


def load_members(
    combination: Combination,
    output: Output,
    counts: Path | None = None,
    device: torch.device = CPU,
) -> list[LogLikelihoods]:
    """Load the networks that a run combines, each with the priors of its head."""
    if output.layer or output.head:
        raise InputError(
            "several networks have no common layers, and their head is the one that bayes-asr"
            " combine was given; ask each of them"
        )
    wanted_output = Output(head=combination.head, kind=output.kind or LOG_LIKELIHOODS)
    parts = [take_output(read_network(run), wanted_output, counts) for run in combination.runs]
    return [LogLikelihoods(part, "log-posteriors", device) for part in parts]


def load_any(run: Path | str, output: Output) -> LogLikelihoods | AveragedNetwork:
    """Load the best network of a run, or the average of those that it combines."""
    combination = read_combination(Path(run))
    if combination is None:
        return load(run, output=output)
    return AveragedNetwork(load_members(combination, output), combination, output.kind)


def choose_kind(model: AcousticModel, output: Output) -> str | None:
    """The kind of an output of a network, as its head has it; none of a layer."""
    if output.layer:
        return None
    head = output.head or model.outputs[0]
    return output.choose_kind(head, of_numbers=head in model.of_numbers)


def take_output(
    network: TrainedNetwork, output: Output = DECODED, counts: Path | None = None
) -> TrainedNetwork:
    """The part of a network that computes an output."""
    if output.layer:
        return network.of_part(extract_layer(network.model, output.layer), torch.empty(0))
    head = output.head or network.model.outputs[0]
    part, kind = extract_head(network.model, head), choose_kind(network.model, output)
    labels = cast(Linear, part.heads[0]).out_features
    if counts is not None:
        priors = torch.from_numpy(log_priors(read_counts(counts, labels)))
    elif kind == LOG_LIKELIHOODS:
        priors = network.find_log_priors(head)
    else:
        priors = torch.zeros(labels)  # nothing asks for them
    return network.of_part(part, priors)
