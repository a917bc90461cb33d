"""The front end: everything between the features of an utterance and what the network reads."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayes_asr.errors import InputError
from bayes_asr.features.arriving import Arriving
from bayes_asr.features.transforms import Cmvn, Normalisation, prepare, speaker_normalised

FEATURES = "features"  # the stream of a configuration that names none


@dataclass(frozen=True)
class FrontEnd:
    """What is done to the features of a stream; one value, which the checkpoint holds.

    cmvn: normalisation by speaker; deltas: order of the derivatives that are appended;
    left_context, right_context: frames that are; normalisation: mean and deviation of the training
    data, None until these are known. sound: the fields of the `Analysis` that made the features of
    sound, None where they come from elsewhere.
    """

    cmvn: Cmvn = "none"
    deltas: int = 0
    left_context: int = 0
    right_context: int = 0
    normalisation: Normalisation | None = None
    sound: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """Size F' of what the network reads."""
        return len(self._measured.mean)

    @property
    def stored_size(self) -> int:
        """Size F of the features."""
        context = self.left_context + 1 + self.right_context
        return self.size // ((self.deltas + 1) * context)

    @property
    def _measured(self) -> Normalisation:
        if self.normalisation is None:
            raise ValueError("the normalisation is not measured yet")
        return self.normalisation

    def without_speaker(self, matrix: np.ndarray, stats: np.ndarray | None) -> np.ndarray:
        """Features [T, F] less what is the speaker's, by his CMVN statistics [2, F+1].

        ValueError where statistics are needed and None.
        """
        self.check_speaker(stats)
        if self.cmvn == "none" or stats is None:
            return matrix
        return speaker_normalised(matrix, self.cmvn, stats)

    def check_speaker(self, stats: np.ndarray | None) -> None:
        """ValueError where statistics of the speaker are needed and not given."""
        if self.cmvn != "none" and stats is None:
            raise ValueError(
                f"this run normalises by speaker (features.cmvn = {self.cmvn}): pass the"
                " speaker's CMVN statistics [2, F+1] as `cmvn`"
            )

    def prepare(self, matrix: np.ndarray, stats: np.ndarray | None) -> np.ndarray:
        """Append deltas and context to what is left of features: [T, F] -> [T, F']."""
        return prepare(self.without_speaker(matrix, stats), **self._shape)

    def arriving(self) -> Arriving:
        """What appends deltas and context to features that arrive in chunks."""
        return Arriving(**self._shape)

    def normalise(self, matrix: np.ndarray) -> np.ndarray:
        """What the network reads [T, F'] of prepared features, in their precision."""
        return self._measured(matrix)

    @property
    def _shape(self) -> dict[str, int]:
        return {"order": self.deltas, "left": self.left_context, "right": self.right_context}

    @property
    def preparation(self) -> str:
        """What is done before normalisation, for comparison."""
        return f"cmvn {self.cmvn}, {self._shape}"

    def content(self) -> dict[str, Any]:
        """It as tensors and plain values."""
        return {
            "cmvn": self.cmvn,
            "deltas": self.deltas,
            "left_context": self.left_context,
            "right_context": self.right_context,
            "mean": torch.from_numpy(self._measured.mean),
            "deviation": torch.from_numpy(self._measured.deviation),
            "sound": None if self.sound is None else dict(self.sound),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> "FrontEnd":
        """The one whose `content` this is."""
        given = dict(content)
        mean, deviation = (given.pop(name).numpy() for name in ("mean", "deviation"))
        return cls(**given, normalisation=Normalisation(mean, deviation))


def read_analysis(directory: Path) -> dict[str, Any] | None:
    """What made the features of a data directory from sound; None where it does not say."""
    path = directory / "frontend.json"
    if not path.exists():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"{path}: not a JSON object; compute the features again")
    return fields
