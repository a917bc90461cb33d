"""Log-likelihoods by ONNX Runtime, of a file that `bayes-asr export --onnx` has written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation
from bayes_asr.data.features.streams import split_streams


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
            first = {"features": about["features"], "front_end": json.loads(about["front_end"])}
            streams = json.loads(about.get("streams", "{}")) or {FEATURES: first}
            self.front_ends = {
                name: self._open_stream(int(one["features"]), one["front_end"])
                for name, one in streams.items()
            }
            """What the caller does: normalisation by speaker; for a step, and for streams of
            another rate than the first, deltas and context too."""
        except Exception as error:  # ONNX Runtime has a class of its own for each kind
            raise InputError(
                f"{path}: not an ONNX model of bayes-asr export: {' '.join(str(error).split())}"
            ) from None

    def _open_stream(self, width: int, described: Mapping[str, Any]) -> FrontEnd:
        nothing = Normalisation(np.zeros(width, np.float32), np.ones(width, np.float32))
        whole = FrontEnd(**described, normalisation=nothing)
        if self._is_step or whole.subsampling != 1:
            return whole
        return replace(whole, deltas=0, left_context=0, right_context=0)

    def of_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'], prepared and side by side."""
        return [torch.from_numpy(self._compute(matrix)) for matrix in matrices]

    def _compute(self, matrix: np.ndarray) -> np.ndarray:
        given = split_streams(self.front_ends, matrix)
        if self._is_step:
            given["begins"] = np.array(True)
            for state in self._session.get_inputs()[len(self.front_ends) + 1 :]:
                given[state.name] = np.zeros(state.shape, np.float32)
        loglikes: np.ndarray = self._session.run(["loglikes"], given)[0]
        return loglikes
