"""The keys of the section `model`, and of each kind of layer that `model.stack` can have."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from bayes_asr.base.errors import InputError, nearest
from bayes_asr.config.catalogue import FIXED, LAYERS, UNIT_OPTIONS, UNITS, check_trained, check_unit
from bayes_asr.config.epochs import DROPOUTS, Dropout, check_first_epoch
from bayes_asr.config.stack import StackLayer, complete, read_stack
from bayes_asr.config.values import Dropped, OneOf, Units, Within

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
    labels_per_frame: Annotated[float, Within(0.001, 20)]


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


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    unit: str
    form: Literal["prob", "log", "geometric", "harmonic", "complement", "own-gate"] | None
    activation: str | None
    activation_trains: tuple[str, ...]
    peepholes: bool
    cells_per_block: Annotated[int, Within(1, 1000)] | None
    transitions: Literal["trained", "from-input", "context"] | None
    input_gate: bool
    smooth: bool
    dropped_candidate: Literal["zero", "half", "mean"] | None
    layers: Annotated[int, Within(1, 100)]
    units: Units | tuple[Units, ...]
    bidirectional: bool
    tied_directions: bool
    norm: Literal["batch", "batch-shared", "batch-opposed", "layer", "layer-pytorch-kaldi", "none"]
    dropout: Dropout
    dropout_scaling: Literal["pytorch-kaldi", "inverted"]
    input_dropout: Dropout
    initial_state: Literal["fixed", "zero", "trained"]
    hand_on: Literal["log", "prob"]
    input_init: Literal["xavier", "uniform", "uniform-units", "pytorch-kaldi"]
    head_init: Literal["uniform", "pytorch-kaldi"]
    stack: tuple[Mapping[str, Any], ...]
    heads: Mapping[str, str]
    decoder: DecoderConfig
    kinds: KindsConfig

    def __post_init__(self) -> None:
        """Refuse a unit that is not there, options that it does not have, and what no stack is."""
        self._check_unit()
        self._check_dropout()
        # Without a stack the layers have no names but their numbers.
        numbered = [f"layer{number + 1}" for number in range(self.layers)]
        names = [layer.name for layer in self.read_stack()] or numbered
        for target, name in self.heads.items():
            if name not in names:
                raise InputError(
                    f"model.heads has {target}: {name}, but there is no layer {name}; layers:"
                    f" {', '.join(names)}{nearest(name, names)}"
                )

    def read_stack(self) -> list[StackLayer]:
        """The layers of `stack` with all their options; InputError for what is none."""
        return read_stack(self.stack, LAYERS, self._complete)

    def _complete(self, kind: str, described_options: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a layer, by those that it gives; those of recurrent layers are of here."""
        if kind != "recurrent":
            described = vars(complete(getattr(self.kinds, kind), described_options))
            check_first_epoch("dropout", described.get("dropout"))
            return described
        excluded = ("layers", "head_init", "stack", "heads", "decoder", "kinds")
        # The model itself gives the defaults, and what is of several layers is replaced.
        options: dict[str, Any] = {"layers": 1, "stack": (), "heads": {}}
        if described_options.get("unit", self.unit) != self.unit:
            # Those of another unit are not of this one: null, false or empty.
            of_model = {key: getattr(self, key) for key in UNIT_OPTIONS}
            options |= {
                k: type(v)() if isinstance(v, bool | tuple) else None for k, v in of_model.items()
            }
        layer = complete(replace(self, **options), described_options, without=excluded)
        if isinstance(layer.units, tuple):
            raise InputError(f"units is {list(layer.units)}; a layer has one number of units")
        return {key: value for key, value in vars(layer).items() if key not in excluded}

    def _check_dropout(self) -> None:
        for key in DROPOUTS:
            check_first_epoch(f"model.{key}", getattr(self, key))
        for kind, options in vars(self.kinds).items():
            check_first_epoch(f"model.kinds.{kind}.dropout", getattr(options, "dropout", None))

    def _check_unit(self) -> None:
        # Options that are null, false or empty are not asked for.
        options = {key: value for key in UNIT_OPTIONS if (value := getattr(self, key))}
        try:
            unit = check_unit(self.unit, options)
        except InputError as error:
            raise InputError(f"model.{error}") from None  # it begins with the key
        if self.hand_on == "prob" and not unit.probabilistic:
            raise InputError(
                f"model.hand_on is prob, but {self.unit} computes no probabilities; use log"
            )
