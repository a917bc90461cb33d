"""The keys of the sections `decode` and `score`, with their ranges, and the options of a search."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args

from bayes_asr.base.errors import InputError
from bayes_asr.config.values import Within, hints

UNLIMITED = 2**31 - 1
LM_WEIGHTS = Within(1e-3, 1e3)
PENALTIES = Within(-1e3, 1e3)


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Search options, with the names and meanings of Kaldi's latgen-faster-mapped.

    mbr: words of least expected error, as by Kaldi's decode_mbr; beam_width, length_penalty: of
    networks with a decoder, which have no graph.
    """

    acoustic_scale: Annotated[float, Within(1e-6, 1e3)]
    beam: Annotated[float, Within(1e-3, 1e6)]
    # Beams are differences of negative natural logarithms, as in Kaldi.
    lattice_beam: Annotated[float, Within(1e-3, 1e6)]
    max_active: Annotated[int, Within(2, UNLIMITED)]
    min_active: Annotated[int, Within(0, UNLIMITED)]
    lm_weights: tuple[Annotated[float, LM_WEIGHTS], ...]
    insertion_penalties: tuple[Annotated[float, PENALTIES], ...]
    mbr: bool
    beam_width: Annotated[int, Within(1, 10_000)]
    length_penalty: Annotated[float, Within(0, 10)]

    def __post_init__(self) -> None:
        if self.min_active > self.max_active:
            low, high = self.min_active, self.max_active
            raise InputError(f"decode.min_active is {low}, more than decode.max_active, {high}")
        for key in ("lm_weights", "insertion_penalties"):
            if not getattr(self, key):
                raise InputError(f"decode.{key} is empty; name at least one value")


@dataclass(frozen=True)
class SearchOptions:
    """Options of `latgen-faster-mapped`; costs are natural-log costs after the acoustic scale.

    The defaults of keys of a configuration (`SEARCH_KEYS`) are those of conf/base.yaml. strict:
    drop tokens that cost just as much as the cutoff, as Kaldi's FasterDecoder does.
    """

    acoustic_scale: float = 0.1
    beam: float = 13.0
    max_active: int = 7000
    min_active: int = 200
    lattice_beam: float = 8.0
    allow_partial: bool = False
    beam_delta: float = 0.5
    prune_interval: int = 25
    strict: bool = False

    @classmethod
    def from_config(cls, config: DecodeConfig, *, allow_partial: bool = False) -> "SearchOptions":
        """The options that a configuration has under `decode`."""
        keys = {name: getattr(config, name) for name in SEARCH_KEYS}
        return cls(**keys, allow_partial=allow_partial)

    def __post_init__(self) -> None:
        """Refuse what no search can run with, or no configuration may say."""
        for name in SEARCH_KEYS:
            kind, limits = get_args(hints(DecodeConfig)[name])
            value = getattr(self, name)
            if not limits.admits(value):
                limit = limits.describe("a whole number" if kind is int else "a number")
                raise InputError(f"decode: {name} is {value:g}; it must be {limit}")
        for name in ("beam_delta", "prune_interval"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"decode: {name} must be positive, not {getattr(self, name)}")
        if self.min_active > self.max_active:
            raise InputError(
                f"decode: min_active is {self.min_active}, more than max_active, {self.max_active}"
            )


SEARCH_KEYS = tuple(
    key.name for key in fields(DecodeConfig) if key.name in {o.name for o in fields(SearchOptions)}
)
KALDI_DEFAULTS = SearchOptions(beam=16.0, max_active=UNLIMITED, lattice_beam=10.0)
"""Options of latgen-faster-mapped where none is given."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """The counting of errors."""

    metric: Literal["per", "wer"]
    costs: Literal["sclite", "levenshtein"]
    text: str
    conventions: tuple[str, ...]
    phone_map: Literal[48, 39] | None
    glm: str | None
    durations: tuple[Annotated[float, Within(0.01, 1e6)], ...]
    cluster: Literal["speaker", "session", "recording", "voice"]

    def __post_init__(self) -> None:
        if self.glm and self.costs != "sclite":
            raise InputError("score.glm scores as NIST's sclite; set score.costs to sclite")
        if self.glm and self.conventions:
            raise InputError("score.conventions are of texts; leave it empty with score.glm")
        names = [name.partition("=")[0] for name in self.conventions]
        if len(set(names)) < len(names):
            raise InputError(f"score.conventions names one twice: {', '.join(names)}")
