"""Log-likelihoods by ONNX Runtime, of a file that `bayes-asr export --onnx` has written."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError, count_of
from bayes_asr.base.files import read_bytes
from bayes_asr.base.installed import install_command
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import FEATURES, FrontEnd, Normalisation, split_streams
from bayes_asr.decode.forward.interface import LOG_LIKELIHOODS
from bayes_asr.decode.search.search_record import NETWORK
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.train.runs.trained_network import TrainedNetwork

SILENT = 4  # of ONNX Runtime's log, which would be further lines
EXTERNAL = "session.model_external_initializers_file_folder_path"
# A graph may loop without end: an utterance has so long, 100 times what a slow machine needs.
SECONDS, SECONDS_OF_FRAME = 20.0, 0.2


class OnnxNetwork:
    """A network as `forward.directory` uses it; one utterance is computed after the other."""

    kind = LOG_LIKELIHOODS

    def __init__(
        self, path: Path, network: TrainedNetwork, record: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Open a file; InputError for what this program has not written of this network.

        record: of its run, as of `describe_network`.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError(
                f"--onnx needs onnxruntime: {install_command('export')} ({error})"
            ) from None
        if not path.is_file():
            raise InputError(f"{path}: is no file; name one that bayes-asr export has written")
        self._path, self._model = path, network.model
        self._make_options = onnxruntime.RunOptions
        content, options = read_bytes(path), onnxruntime.SessionOptions()
        options.log_severity_level = SILENT  # what is wrong is raised too
        # A file of export is complete: whatever it names outside itself is looked for nowhere.
        options.add_session_config_entry(EXTERNAL, os.devnull)
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            about = self._session.get_modelmeta().custom_metadata_map
            self._is_step = about["form"] == "step"
            self.front_ends = self._open_streams(about)
            """What the caller does: normalisation by speaker; for a step, and for streams of
            another rate than the first, deltas and context too."""
            self._check_inputs(network.front_ends)
            self.record = {NETWORK: about[NETWORK]} if NETWORK in about else {}
            """That of the network that was exported; empty for files of earlier versions."""
            if self.record not in ({}, record):
                raise self._refuse("is of another network than the run has now")
            if network.speakers:
                LOGGER.warning(
                    "%s: computes all speakers alike; the run has activations of %s",
                    *(path, count_of(len(network.speakers), "speaker")),
                )
            # A file does not say what made its features of sound.
            for name, front_end in self.front_ends.items():
                sound = network.front_ends[name].sound
                self.front_ends[name] = replace(front_end, sound=sound)
        except InputError:
            raise
        except Exception as error:  # ONNX Runtime has a class of its own for each kind
            raise InputError(
                f"{path}: not an ONNX model of bayes-asr export: {' '.join(str(error).split())}"
            ) from None

    def _open_streams(self, about: Mapping[str, str]) -> dict[str, FrontEnd]:
        """The front ends that the metadata of the file describe."""
        single = {"features": about["features"], "front_end": json.loads(about["front_end"])}
        streams = json.loads(about.get("streams", "{}")) or {FEATURES: single}
        return {
            name: self._open_stream(int(stream["features"]), stream["front_end"])
            for name, stream in streams.items()
        }

    def _open_stream(self, width: int, described: Mapping[str, Any]) -> FrontEnd:
        # The file normalises; here nothing is left to subtract or divide by.
        identity = Normalisation(np.zeros(width, np.float32), np.ones(width, np.float32))
        front_end = FrontEnd(**described, normalisation=identity)
        if self._is_step or front_end.subsampling != 1:
            return front_end
        return replace(front_end, deltas=0, left_context=0, right_context=0)

    def _check_inputs(self, front_ends: Mapping[str, FrontEnd]) -> None:
        """InputError for another front end than that of the run."""
        for name in {**front_ends, **self.front_ends}:
            if name not in front_ends or name not in self.front_ends:
                raise self._refuse(f"reads {', '.join(self.front_ends)}, unlike the run")
            now, trained = self.front_ends[name], front_ends[name]
            # The file appends deltas and context itself, unless the caller does.
            width = trained.size if now.shape == trained.shape else trained.stored_size
            if now.size != width or now.cmvn != trained.cmvn:
                what = f"{now.size} values of {name}, {now.preparation}"
                raise self._refuse(f"reads {what}, unlike the run")

    def _refuse(self, why: str) -> InputError:
        return InputError(
            f"{self._path}: {why}; export the network of the run again by bayes-asr export RUN"
            " --onnx FILE"
        )

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
        options = self._make_options()
        options.log_severity_level = SILENT
        seconds = SECONDS + SECONDS_OF_FRAME * len(matrix)
        stop = threading.Timer(seconds, setattr, (options, "terminate", True))
        stop.start()
        try:
            loglikes: np.ndarray = self._session.run(["loglikes"], inputs, options)[0]
        except Exception as error:  # ONNX Runtime has a class of its own for each kind
            if options.terminate:
                raise self._refuse(
                    f"computes {len(matrix)} frames for over {seconds:g} s"
                ) from None
            message = " ".join(str(error).split())[:200]
            raise self._refuse(f"cannot compute {len(matrix)} frames: {message}") from None
        finally:
            stop.cancel()
        rows = self._model.output_frames(PackedFrames((len(matrix),), torch.device("cpu"))).count
        expected = (rows, self._model.heads[0].out_features)
        if np.shape(loglikes) != expected or loglikes.dtype != np.float32:
            raise self._refuse(f"computes {np.shape(loglikes)} of {len(matrix)} frames")
        if not np.isfinite(loglikes).all():
            raise self._refuse("computes log-likelihoods that are not finite")
        return loglikes
