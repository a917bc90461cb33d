"""What a caller gives of an utterance: the features of each stream that a network reads."""

from collections.abc import Collection, Mapping

import numpy as np
from torch import Tensor

from bayes_asr.config.catalogue import nearest

Matrix = Tensor | np.ndarray
Given = Matrix | Mapping[str, Matrix]
"""Features [T, F] of the first stream, or of each, by name."""

Statistics = np.ndarray | Mapping[str, np.ndarray] | None
"""CMVN statistics [2, F+1] of the speaker: of the first stream, or of each, by name."""


def name_streams(
    known: Collection[str], features: Given | None, more: Mapping[str, Matrix]
) -> Mapping[str, Matrix]:
    """Features by the names of their streams; ValueError unless they are the `known` ones."""
    given = features if isinstance(features, Mapping) else {next(iter(known)): features}
    named = {name: x for name, x in {**given, **more}.items() if x is not None}
    for name in named:
        if name not in known:
            raise ValueError(f"there is no stream {name}{nearest(name, known)}")
    if missing := [name for name in known if name not in named]:
        raise ValueError(
            f"this network reads {', '.join(known)}: pass {', '.join(missing)} too,"
            " in a mapping or by name"
        )
    return named
