"""The keys of the sections `decode` and `score`, their types and ranges."""

from dataclasses import dataclass
from typing import Annotated, Literal

from bayes_asr.base.errors import InputError
from bayes_asr.config.values import Within

LM_WEIGHTS = Within(1e-3, 1e3)
PENALTIES = Within(-1e3, 1e3)


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Search options, with the names and meanings of Kaldi's latgen-faster-mapped.

    beam_width, length_penalty: of networks with a decoder, which have no graph.
    """

    acoustic_scale: Annotated[float, Within(1e-6, 1e3)]
    beam: Annotated[float, Within(1e-3, 1e6)]
    # Beams are differences of negative natural logarithms, as in Kaldi.
    lattice_beam: Annotated[float, Within(1e-3, 1e6)]
    max_active: Annotated[int, Within(2, 2**31 - 1)]
    min_active: Annotated[int, Within(0, 2**31 - 1)]
    lm_weights: tuple[Annotated[float, LM_WEIGHTS], ...]
    insertion_penalties: tuple[Annotated[float, PENALTIES], ...]
    beam_width: Annotated[int, Within(1, 10_000)]
    length_penalty: Annotated[float, Within(0, 10)]

    def __post_init__(self) -> None:
        if self.min_active > self.max_active:
            raise InputError(
                f"decode.min_active is {self.min_active}, more than decode.max_active,"
                f" {self.max_active}"
            )
        for key in ("lm_weights", "insertion_penalties"):
            if not getattr(self, key):
                raise InputError(f"decode.{key} is empty; name at least one value")


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
