"""Log-likelihoods by ONNX Runtime, of a file that `bayes-asr export --onnx` has written."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bayes_asr.errors import InputError
from bayes_asr.features.front_end import FrontEnd, Normalisation


class OnnxNetwork:
    """What `forward.directory` asks of a network; one utterance is computed after the other."""

    def __init__(self, path: Path) -> None:
        """Open a file; InputError for what this program has not written."""
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError(
                f"--onnx needs onnxruntime: pip install -e '.[export]' ({error})"
            ) from None
        content = path.read_bytes()
        try:
            self._session = onnxruntime.InferenceSession(
                content, providers=["CPUExecutionProvider"]
            )
            about = self._session.get_modelmeta().custom_metadata_map
            self._is_step = about["form"] == "step"
            done = json.loads(about["front_end"])
            width = int(about["features"])
        except Exception as error:  # ONNX Runtime has a class of its own for each kind
            raise InputError(
                f"{path}: not an ONNX model of bayes-asr export: {' '.join(str(error).split())}"
            ) from None
        inside = {} if self._is_step else {"deltas": 0, "left_context": 0, "right_context": 0}
        nothing = Normalisation(np.zeros(width, np.float32), np.ones(width, np.float32))
        self.front_end = FrontEnd(**{**done, **inside}, normalisation=nothing)
        """What the caller does: normalisation by speaker; for a step, deltas and context too."""

    def of_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'] that `FrontEnd.prepare` has prepared."""
        return [torch.from_numpy(self._compute(matrix)) for matrix in matrices]

    def _compute(self, matrix: np.ndarray) -> np.ndarray:
        given = {"features": matrix}
        if self._is_step:
            given["begins"] = np.array(True)
            for state in self._session.get_inputs()[2:]:
                given[state.name] = np.zeros(state.shape, np.float32)
        loglikes: np.ndarray = self._session.run(["loglikes"], given)[0]
        return loglikes
