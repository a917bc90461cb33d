"""The keys of the section `train`, their types and ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import CRITERIA, GPU_PATHS, OPTIMIZERS, SCHEDULES
from bayes_asr.config.epochs import check_first_epoch
from bayes_asr.config.values import Count, OneOf, Share, Weight, Within

Rate = Annotated[float, Within(1e-8, 10)]
OptimizerName = Annotated[str, OneOf(OPTIMIZERS)]
Frames = Annotated[int, Within(0, 10_000_000)]
Decay = Annotated[float, Within(0, 0.999999)]
OFF = ("momentum", "dampening", "nesterov", "centered", "amsgrad")
"""Options of optimizers that are 0 or false where they are not wanted."""

BY_EPOCH = ("batch_sequences", "max_frames", "teacher_forcing")
"""Keys whose value may be one for each epoch."""


@dataclass(frozen=True, kw_only=True)
class LayerTraining:
    """Training options of one layer or head, where they differ from those of all others."""

    learning_rate_factor: Annotated[float, Within(1e-6, 1e3)]
    optimizer: OptimizerName | None
    frozen_epochs: Annotated[int, Within(0, 100_000)] | Literal["all"]

    def is_frozen(self, epoch: int) -> bool:
        """Whether it is kept as it is in an epoch, counted from 1."""
        return self.frozen_epochs == "all" or epoch <= self.frozen_epochs


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A run whose weights a new one begins with.

    layers: the old layer or head by the new one; none: all that fit. normalisation: whether the
    mean and deviation of the features are measured on the data, or those of the run.
    """

    run: str
    layers: Mapping[str, str] = field(default_factory=dict)
    normalisation: Literal["data", "run"] = "data"


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Layer-wise pretraining: shallower networks first, each one layer deeper than the last."""

    epochs: Annotated[int, Within(0, 1000)]
    learning_rate: Rate | None
    activations: Literal["frozen", "trained"]


@dataclass(frozen=True, kw_only=True)
class SpecAugmentConfig:
    """Spans of features that are masked in training (Park et al. 2019)."""

    time_masks: Annotated[int, Within(0, 100)]
    time_width: Annotated[int, Within(0, 10_000)]
    time_share: Share
    frequency_masks: Annotated[int, Within(0, 100)]
    frequency_width: Annotated[int, Within(0, 10_000)]
    frequency_streams: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SequenceConfig:
    """Options of sequence-discriminative criteria, by numerator and denominator lattices."""

    lattices: Literal["once", "each-epoch"]
    # None stands for the scale of decoding, so that both see the same odds.
    acoustic_scale: Annotated[float, Within(1e-6, 1e3)] | None
    lm_scale: Annotated[float, Within(0, 1e3)]
    silence_phones: tuple[Count, ...] | None
    one_silence_class: bool
    # Added to the log-weight of a path for each wrong phone and frame (bMMI).
    boost: Annotated[float, Within(0, 10)]
    max_silence_error: Share
    drop_frames: bool
    xent_regularize: Weight


@dataclass(frozen=True, kw_only=True)
class ChainConfig:
    """Options of lattice-free MMI, by Kaldi's names."""

    frame_subsampling_factor: Annotated[int, Within(1, 20)]
    left_tolerance: Annotated[int, Within(0, 100)]
    right_tolerance: Annotated[int, Within(0, 100)]
    # The probability to leave a state between frames for any other, as in Kaldi's denominator.
    leaky_hmm_coefficient: Annotated[float, Within(1e-10, 1)]
    xent_regularize: Weight
    l2_regularize: Weight

    def __post_init__(self) -> None:
        """Refuse tolerances by which a short phone may have no output."""
        # Each output sees a label within this many frames, and outputs are factor frames apart.
        around = self.left_tolerance + self.right_tolerance + 1
        if around < self.frame_subsampling_factor:
            raise InputError(
                f"train.chain.left_tolerance is {self.left_tolerance} and right_tolerance"
                f" {self.right_tolerance}: give {self.frame_subsampling_factor - 1} together, or a"
                " phone may have no frame"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Options of training."""

    epochs: Count
    batch_sequences: Count | Mapping[Count, Count]
    # Without padding: the sum of the frames of a batch's sequences.
    batch_frames: Count
    max_frames: Frames | Mapping[Count, Frames]
    device: Literal["auto", "cpu", "cuda"]
    # Which backend of nn/kernels/dispatch.py a GPU asks first.
    gpu_path: Annotated[str, OneOf(("auto", *GPU_PATHS))]
    precision: Literal["float32", "bfloat16"]
    criterion: Annotated[str, OneOf(CRITERIA)]
    sequence: SequenceConfig
    chain: ChainConfig
    optimizer: OptimizerName
    momentum: Decay
    dampening: Share
    nesterov: bool
    # The share of the old mean of squared gradients in RMSprop.
    alpha: Decay
    centered: bool
    betas: tuple[Decay, ...]
    amsgrad: bool
    epsilon: Annotated[float, Within(1e-12, 1)]
    weight_decay: Share
    learning_rate: Rate
    schedule: Annotated[str, OneOf(SCHEDULES)]
    halving_factor: Annotated[float, Within(0.01, 1)]
    # A relative fall of the dev error; below it newbob multiplies the rate by the factor above.
    improvement_threshold: Annotated[float, Within(-1, 1)]
    learning_rates: Mapping[Count, Rate]
    warmup_epochs: Annotated[float, Within(0, 1000)]
    warmup_batches: Frames
    layers: Mapping[str, LayerTraining]
    init_from: tuple[Transfer, ...]
    pretrain: PretrainConfig
    max_gradient_norm: Annotated[float, Within(1e-6, 1e9)]
    monophone_weight: Weight
    target_weights: Mapping[str, Weight]
    teacher_forcing: Share | Mapping[Count, Share]
    freeze_activations: Annotated[int, Within(0, 100_000)]
    speaker_adaptive: bool
    noise: Annotated[float, Within(0, 10)]
    tempo: Annotated[float, Within(0, 0.5)]
    spec_augment: SpecAugmentConfig
    save_minutes: Annotated[float, Within(0, 10_000)]
    max_bad_batches: Annotated[int, Within(0, 1_000_000)]
    # Each return to the last epoch halves the rate.
    max_returns: Annotated[int, Within(0, 100)]
    tensorboard: bool

    def __post_init__(self) -> None:
        """Refuse options that contradict each other, or that nothing would read."""
        self._check_optimizers()
        self._check_epochs()
        if "pdfs" in self.target_weights:
            raise InputError(
                "train.target_weights.pdfs is not to be set: that loss counts 1; weigh the others"
                " against it"
            )
        if self.warmup_epochs and self.warmup_batches:
            raise InputError(
                f"train.warmup_batches is {self.warmup_batches}, and train.warmup_epochs is"
                f" {self.warmup_epochs:g}; keep one of the two"
            )
        if self.pretrain.epochs and self.init_from:
            raise InputError(
                f"train.pretrain.epochs is {self.pretrain.epochs}, and train.init_from gives the"
                " first layers too; keep one of the two"
            )

    def _check_optimizers(self) -> None:
        layer_optimizers = (layer.optimizer for layer in self.layers.values())
        optimizers = {self.optimizer, *(name for name in layer_optimizers if name)}
        # One layer with a fitting optimizer is enough for an option to be read.
        for option in OFF:
            having = [name for name, entry in OPTIMIZERS.items() if option in entry.options]
            if getattr(self, option) and not optimizers.intersection(having):
                raise InputError(
                    f"train.{option} is of {' and '.join(having)}, but train.optimizer is"
                    f" {self.optimizer}; leave it out"
                )
        # torch refuses the same, though only when the optimizer is made.
        if self.nesterov and (not self.momentum or self.dampening):
            raise InputError(
                f"train.nesterov wants train.momentum above 0 and train.dampening 0, but these are"
                f" {self.momentum:g} and {self.dampening:g}"
            )
        if len(self.betas) != 2:
            raise InputError(f"train.betas has {len(self.betas)} numbers; give two")

    def _check_epochs(self) -> None:
        for key in BY_EPOCH:
            check_first_epoch(f"train.{key}", getattr(self, key))
        if self.learning_rates:
            check_first_epoch("train.learning_rates", self.learning_rates)
        if self.schedule == "list" and not self.learning_rates:
            raise InputError(
                "train.schedule is list, but train.learning_rates is empty; give it rates by their"
                " first epoch, {1: 1e-3, 9: 1e-4}"
            )
        if self.schedule != "list" and self.learning_rates:
            raise InputError(
                "train.learning_rates is what train.schedule = list reads, but that is"
                f" {self.schedule}; set both or neither"
            )
