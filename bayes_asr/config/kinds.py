"""The options of each kind of layer that `model.stack` can have, their types and ranges.

Those of recurrent layers are `schema.ModelConfig`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import FIXED, UNITS, check_trained
from bayes_asr.config.epochs import Dropout
from bayes_asr.config.ranges import Dropped, OneOf, Units, Within

Fixed = Annotated[str, OneOf(dict.fromkeys(FIXED))]
Norm = Literal["batch", "layer", "layer-pytorch-kaldi", "none"]
RECURRENT = [name for name in UNITS if name != "mlp"]
Taps = Annotated[int, Within(1, 10_000)]
Step = Annotated[int, Within(1, 1000)]
Hertz = Annotated[float, Within(0, 100_000)]


@dataclass(frozen=True, kw_only=True)
class MlpKind:
    """A feed-forward layer."""

    units: Units
    activation: Annotated[str, OneOf(dict.fromkeys(UNITS["mlp"].activations))]
    activation_trains: tuple[str, ...]
    norm: Norm
    bias: bool
    dropout: Dropout
    input_init: Literal["xavier", "pytorch-kaldi"]

    def __post_init__(self) -> None:
        check_trained(self.activation, self.activation_trains)


@dataclass(frozen=True, kw_only=True)
class Conv1dKind:
    """A convolution over time."""

    channels: Units
    kernel: Taps
    dilation: Step
    # In frames: a layer with a stride has fewer of them, and heads repeat what it gives.
    stride: Step
    causal: bool
    norm: Norm
    activation: Fixed
    dropout: Dropout


@dataclass(frozen=True, kw_only=True)
class Conv2dKind:
    """A convolution over time and frequency."""

    channels: Units
    input_channels: Units | None
    kernel: tuple[Taps, ...]
    dilation: Step
    # In frequencies: a convolution over both keeps all frames.
    stride: Step
    padding: Annotated[int, Within(0, 10_000)]
    pooling: Taps
    causal: bool
    norm: Norm
    activation: Fixed
    dropout: Dropout

    def __post_init__(self) -> None:
        if len(self.kernel) != 2:
            raise InputError(
                f"kernel has {len(self.kernel)} numbers; it is [frames, frequencies], such as"
                " [3, 3]"
            )


@dataclass(frozen=True, kw_only=True)
class SincKind:
    """Band-pass filters on samples."""

    channels: Units
    # In samples, which stand in place of the features of a frame.
    kernel: Taps
    sample_rate: Annotated[int, Within(1000, 400_000)]
    min_low: Hertz
    min_band: Hertz
    stride: Step
    pooling: Taps
    norm: Norm
    activation: Fixed
    dropout: Dropout

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise InputError(
                f"kernel is {self.kernel}, but a filter has a sample in its middle; make it odd"
            )
        # The highest filter needs 100 Hz of its own below half of the sample rate.
        if self.min_low + self.min_band + 100 > self.sample_rate / 2:
            raise InputError(
                f"min_low {self.min_low:g} and min_band {self.min_band:g} leave no room below"
                f" {self.sample_rate / 2:g} Hz, half of the sample rate; make them smaller"
            )


@dataclass(frozen=True, kw_only=True)
class ProjectionKind:
    """A linear map."""

    units: Units
    bias: bool


@dataclass(frozen=True, kw_only=True)
class NormKind:
    """A norm alone."""

    norm: Literal["batch", "layer", "layer-pytorch-kaldi", "instance"]


@dataclass(frozen=True, kw_only=True)
class DropoutKind:
    """Dropout alone."""

    of: Literal["units", "frames", "utterances"]
    dropout: Dropout


@dataclass(frozen=True, kw_only=True)
class PoolKind:
    """One vector of the frames of an utterance, or of each segment of it."""

    of: Literal["last", "mean", "attention"]
    # In frames; 0 pools all of the utterance.
    segment: Annotated[int, Within(0, 1_000_000)]
    shift: Annotated[int, Within(1, 1_000_000)]
    units: Units
    directions: Annotated[int, Within(1, 2)] | None


@dataclass(frozen=True, kw_only=True)
class SegmentsKind:
    """The last state of a recurrence that begins anew in each segment."""

    unit: Annotated[str, OneOf(RECURRENT)]
    units: Units
    bidirectional: bool
    norm: Norm
    dropout: Dropout
    # In frames.
    segment: Annotated[int, Within(1, 1_000_000)]
    shift: Annotated[int, Within(1, 1_000_000)]


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """The decoder that writes the labels of data.sequences, in place of a head."""

    unit: Annotated[str, OneOf(RECURRENT)]
    units: Units
    embedding: Units
    attention: Literal["none", "lecture", "dot", "additive", "location"]
    attention_units: Units
    dropout: Dropped
    # The bound ends a search that would never write the end.
    labels_per_frame: Annotated[float, Within(0.001, 1)]


@dataclass(frozen=True, kw_only=True)
class KindsConfig:
    """Default options of layers, by their kind."""

    mlp: MlpKind
    conv1d: Conv1dKind
    conv2d: Conv2dKind
    sinc: SincKind
    projection: ProjectionKind
    norm: NormKind
    dropout: DropoutKind
    pool: PoolKind
    segments: SegmentsKind
