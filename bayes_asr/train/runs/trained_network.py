"""Trained network of a run, with all that its log-likelihoods depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.config.catalogue import find
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.kaldi_io.side_files import BEST, COMBINATION, check_is_run
from bayes_asr.nn.network import AcousticModel, build_network
from bayes_asr.train.runs import checkpoint, state


@dataclass(frozen=True)
class TrainedNetwork:
    """Network with front ends and priors: the content of `best.pt`, and of all other checkpoints.

    front_ends: of each stream that the model reads; log_priors: of the labels of its first head,
    the pdfs, float64 [P]; other_log_priors: those of the other heads, by name, which runs of
    version 0.1 and of lattice-free MMI lack; speakers: the parameters of activations that each
    speaker has instead of the model's own, by the names of `AcousticModel.activation_parameters`;
    classes: names of the outputs of the first head, where utterances are classified, or the
    vocabulary of a decoder.
    """

    model: AcousticModel
    front_ends: Mapping[str, FrontEnd]
    log_priors: Tensor
    other_log_priors: Mapping[str, Tensor] = field(default_factory=dict)
    speakers: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Fields as tensors and plain values."""
        files = find("nn.units.external:hash_files")(self.model.architecture)
        return {
            "architecture": self.model.architecture,
            "model": self.model.state_dict(),
            "front_ends": _pack_front_ends(self.front_ends),
            "log_priors": self.log_priors,
            "other_log_priors": dict(self.other_log_priors),
            **({"speakers": dict(self.speakers)} if self.speakers else {}),
            **({"classes": list(self.classes)} if self.classes else {}),
            **({"unit_files": files} if files else {}),
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> "TrainedNetwork":
        """Network whose `content` this is, in no more memory than its weights take.

        content: one that `checkpoint.check_network` lets pass.
        """
        with torch.device("meta"):
            model = build_network(content["architecture"])
        # `assign` takes the tensors of the file themselves, in place of a copy.
        model.load_state_dict(content["model"], assign=True)
        front_ends = unpack_front_ends(content["front_ends"])
        # Checkpoints of version 0.1 have the priors of the first head alone.
        priors = {model.outputs[0]: content["log_priors"], **content.get("other_log_priors", {})}
        speakers, classes = content.get("speakers", {}), tuple(content.get("classes", ()))
        return cls(model, front_ends, priors.pop(model.outputs[0]), priors, speakers, classes)

    def find_log_priors(self, head: str) -> Tensor:
        """Log priors of the labels of a head, float64 [P]; InputError where there are none."""
        main = self.model.outputs[0]
        if head != main and head not in self.other_log_priors:
            raise InputError(
                f"in this run priors were kept of {main} alone: give forward --counts, a file of"
                f" how often each of the labels of {head} occurs"
            )
        return self.log_priors if head == main else self.other_log_priors[head]

    def of_part(self, part: AcousticModel, log_priors: Tensor) -> "TrainedNetwork":
        """The network of a part of the model (`nn/part.py`)."""
        front_ends = {name: self.front_ends[name] for name in part.architecture["streams"]}
        return TrainedNetwork(
            part, front_ends, log_priors, speakers=self.speakers, classes=self.classes
        )


def unpack_front_ends(content: Mapping[str, Mapping[str, Any]]) -> dict[str, FrontEnd]:
    """The front ends, by stream, of the content of a checkpoint."""
    arrays = {
        name: {k: v.numpy() if isinstance(v, Tensor) else v for k, v in values.items()}
        for name, values in content.items()
    }
    return {name: FrontEnd.of_content(values) for name, values in arrays.items()}


def _pack_front_ends(front_ends: Mapping[str, FrontEnd]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v
            for k, v in front_end.content().items()
        }
        for name, front_end in front_ends.items()
    }


def read_network(run: Path) -> TrainedNetwork:
    """The best network of a run; InputError where there is none, or it is not what it says.

    A warning names a training that has not ended: later epochs may be better.
    """
    check_is_run(run)
    if (ended := state.read(run).get("state", "finished")) != "finished":
        LOGGER.warning("%s: its training has not ended (%s): the best network so far", run, ended)
    if is_there(run / COMBINATION):
        raise InputError(
            f"{run}: combines the networks of other runs ({COMBINATION}), or has another head of"
            " one; name one of these, whose first head is taken, or give it to forward, decode,"
            " score and report, or bayes_asr.load"
        )
    return TrainedNetwork.of_content(checkpoint.read(run / BEST))
