"""The keys that say what a network reads and learns: sets, streams, labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from bayes_asr.base.errors import InputError
from bayes_asr.config.values import Context, Share, Units, Within

Directories = Mapping[str, tuple[str, ...]]
"""Of each stream or label set, by its name, what `features` or `alignments` are of the first."""


@dataclass(frozen=True, kw_only=True)
class SetConfig:
    """The directories of one set, tried in order, relative to `data.dir`."""

    features: tuple[str, ...]
    alignments: tuple[str, ...]
    streams: Directories


@dataclass(frozen=True, kw_only=True)
class LabelledSetConfig(SetConfig):
    """A set that is trained or validated on, which may be of several directories together."""

    labels: Directories
    lattices: tuple[str, ...]
    features_all_of: tuple[str, ...]
    alignments_all_of: tuple[str, ...]
    streams_all_of: Directories
    labels_all_of: Directories

    @property
    def stream_names(self) -> list[str]:
        """The further streams, in order."""
        return sorted({*self.streams, *self.streams_all_of})

    @property
    def label_names(self) -> list[str]:
        """The further label sets, in order."""
        return sorted({*self.labels, *self.labels_all_of})


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Corpus directories and what is expected of them."""

    dir: str
    moved: tuple[str, ...]
    train: LabelledSetConfig
    dev: LabelledSetConfig
    test: SetConfig
    classes: str | None
    chain: tuple[str, ...]
    sequences: str | None
    graph: tuple[str, ...]
    # Features of other dimensions are announced, and used all the same.
    expected_dims: tuple[Units, ...]
    # A share of the training speakers.
    held_out: Annotated[float, Within(0, 0.5)]
    max_skipped: Share
    index: str
    keep: Literal["none", "float32", "float16"]

    def __post_init__(self) -> None:
        for name, part in (("train", self.train), ("dev", self.dev)):
            _refuse_both(f"data.{name}", part)
        for move in self.moved:
            old, mark, _ = move.partition("=")
            if not (old and mark):
                raise InputError(
                    f"data.moved has {move!r}; write OLD=NEW: what names of files begin with, and"
                    " where that is now"
                )

    @property
    def moves(self) -> list[tuple[str, str]]:
        """Prefixes of file names, and the prefixes that replace them."""
        parts = (move.partition("=") for move in self.moved)
        # A prefix ends between folders, whether or not it was written with a slash.
        return [(old.rstrip("/"), new.rstrip("/")) for old, _, new in parts]


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """From stored features to the network's input."""

    cmvn: Literal["none", "mean", "mean-variance"]
    deltas: Annotated[int, Within(0, 3)]
    left_context: Context
    right_context: Context


@dataclass(frozen=True, kw_only=True)
class StreamConfig(FeatureConfig):
    """The same of a further stream, which may come at another rate than the first."""

    subsampling: Annotated[int, Within(-100, 100)] | Literal["utterance"]

    def __post_init__(self) -> None:
        # -1 would say the same as 1, and 0 nothing.
        if self.subsampling in (0, -1):
            raise InputError(
                f"subsampling is {self.subsampling}; it must be 1 for the rate of the features, 2"
                " or more for a lower one, -2 or less for a higher one, or utterance"
            )
        if self.subsampling == "utterance" and (
            self.deltas or self.left_context or self.right_context
        ):
            raise InputError(
                "subsampling is utterance: nothing is before or after one vector; leave deltas,"
                " left_context and right_context at 0"
            )


def _refuse_both(where: str, part: LabelledSetConfig) -> None:
    """InputError where a set names alternatives and directories taken together at once."""
    for key in ("features", "alignments"):
        if getattr(part, key) and getattr(part, f"{key}_all_of"):
            raise InputError(
                f"{where}.{key}_all_of takes directories together, but {where}.{key} names"
                " alternatives; keep one of the two"
            )
    for key in ("streams", "labels"):
        for name in sorted({*getattr(part, key)} & {*getattr(part, f"{key}_all_of")}):
            raise InputError(
                f"{where}.{key}_all_of.{name} takes directories together, but {where}.{key}.{name}"
                " names alternatives; set one of the two to null"
            )
