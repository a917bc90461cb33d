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
    """A network as `forward.directory` uses it; one utterance is computed after the other."""

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
            single = {"features": about["features"], "front_end": json.loads(about["front_end"])}
            streams = json.loads(about.get("streams", "{}")) or {FEATURES: single}
            self.front_ends = {
                name: self._open_stream(int(stream["features"]), stream["front_end"])
                for name, stream in streams.items()
            }
            """What the caller does: normalisation by speaker; for a step, and for streams of
            another rate than the first, deltas and context too."""
        except Exception as error:  # ONNX Runtime has a class of its own for each kind
            raise InputError(
                f"{path}: not an ONNX model of bayes-asr export: {' '.join(str(error).split())}"
            ) from None

    def _open_stream(self, width: int, described: Mapping[str, Any]) -> FrontEnd:
        # The file normalises; here nothing is left to subtract or divide by.
        identity = Normalisation(np.zeros(width, np.float32), np.ones(width, np.float32))
        front_end = FrontEnd(**described, normalisation=identity)
        if self._is_step or front_end.subsampling != 1:
            return front_end
        return replace(front_end, deltas=0, left_context=0, right_context=0)

    def compute_prepared(self, matrices: Sequence[np.ndarray]) -> list[Tensor]:
        """Log-likelihoods [T, P] of utterances [T, F'], prepared and side by side."""
        return [torch.from_numpy(self._compute(matrix)) for matrix in matrices]

    def _compute(self, matrix: np.ndarray) -> np.ndarray:
        inputs = split_streams(self.front_ends, matrix)
        if self._is_step:
            inputs["begins"] = np.array(True)
            # Their values do not matter at a beginning; their shapes do.
            for state in self._session.get_inputs()[len(self.front_ends) + 1 :]:
                inputs[state.name] = np.zeros(state.shape, np.float32)
        loglikes: np.ndarray = self._session.run(["loglikes"], inputs)[0]
        return loglikes
