"""Networks of the same size whose training steps a card is measured by: this toolkit's units by
each path, torch.nn.LSTM and torch.nn.GRU, pytorch-kaldi's liGRU.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from networks import HEADS, make_network
from peers import DROPOUT, GRU, LSTM, PEERS, PYTORCH_KALDI, Network, pytorch_kaldis
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from bayes_asr.config.catalogue import GPU_PATHS
from bayes_asr.config.merge import load
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.nn.criteria import CrossEntropy
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.nn.kernels.dispatch import choose_backend
from bayes_asr.nn.recurrent import RecurrentLayer
from bayes_asr.train import components
from bayes_asr.train.batch import Batch
from bayes_asr.train.step import Step

MAX_NORM, IGNORED = 5.0, -100
LEARNING_RATE = 1e-5  # batches are noise, on which units without bounds diverge by and by
SPREAD = 0.1  # of the lengths in a batch, as `data.corpus.batches.batches_of` groups utterances
PRECISIONS = ("float32", "bfloat16", "tf32")
UNDROPPED = ("lstm", "torch-lstm", "torch-gru")  # cuDNN has these without dropout inside


class Size(NamedTuple):
    """Sizes of a network."""

    inputs: int
    units: int
    layers: int
    outputs: tuple[int, int]


class Case(NamedTuple):
    """A network, and how it is trained; frames: of the longest sequence."""

    network: str
    precision: str
    batch: int
    frames: int
    ragged: bool

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the sequences, the longest first."""
        if not self.ragged:
            return (self.frames,) * self.batch
        factors = np.random.default_rng(1).uniform(1 - 2 * SPREAD, 1, self.batch - 1)
        shorter = [max(1, round(self.frames * factor)) for factor in factors]
        return tuple(sorted([self.frames, *shorter], reverse=True))


class UnitError(ValueError):
    """A path does not compute a unit."""


class Trained(Protocol):
    """A network that takes training steps on one batch, in bfloat16 or not."""

    bfloat16: bool

    def take(self, path: str) -> None:
        """Compute by this path from now on; UnitError where it does not compute the network."""

    def step(self) -> None:
        """Take a step as training does, up to the optimizer."""

    def gradients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Outputs of the heads, and gradients of the recurrent layers' weights."""


class Unit:
    """A network of this toolkit, trained as `bayes-asr train` does."""

    def __init__(self, case: Case, size: Size, device: torch.device) -> None:
        options = {"dropout": 0.0 if case.network in UNDROPPED else DROPOUT}
        self.model = make_network(
            size.inputs, size.outputs, case.network, size.layers, size.units, **options
        ).to(device)
        self.model.train()
        self.bfloat16 = case.precision == "bfloat16"
        settings = ["train.optimizer=adam", f"train.learning_rate={LEARNING_RATE}"]
        optimizer = components.build_optimizer(load([], settings).train, self.model)
        self._step = Step(self.model, optimizer, max_gradient_norm=MAX_NORM, bfloat16=self.bfloat16)
        self._criterion = CrossEntropy(dict.fromkeys(HEADS, 1.0))
        lengths = case.lengths
        n = sum(lengths)
        labels = {h: torch.randint(p, (n,)) for h, p in zip(HEADS, size.outputs, strict=True)}
        self.batch = Batch(
            {FEATURES: torch.randn(n, size.inputs).to(device)},
            PackedFrames(lengths, device),
            {head: ids.to(device) for head, ids in labels.items()},
            torch.arange(len(lengths), device=device),
        )

    @property
    def layers(self) -> list[RecurrentLayer]:
        """The recurrent layers."""
        return [cast(RecurrentLayer, layer) for layer in self.model.layers]

    def take(self, path: str) -> None:
        """Compute by a path of `GPU_PATHS`."""
        for layer in self.layers:
            backend = choose_backend(layer.cell, layer.W.weight, fused=True, path=path)
            if GPU_PATHS[path] not in ("", getattr(backend, "__name__", None)):
                raise UnitError("it does not compute this unit")
            layer.path = path

    def step(self) -> None:
        """Take a step as `train.loop` does."""
        with self._step.restoring_statistics():
            cost = self._compute_cost()[1]
            self._step(cost.objective)
        cost.loss.item()

    def gradients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Outputs of the heads, and gradients of W and V of each layer."""
        self.model.zero_grad()
        statistics = {name: x.clone() for name, x in self.model.named_buffers()}
        outputs, cost = self._compute_cost()
        cost.objective.backward()
        # A path that computes NaN leaves none for those that come after it.
        for name, x in self.model.named_buffers():
            x.copy_(statistics[name])
        weights = [w for layer in self.layers for w in (layer.W.weight, layer.V) if w is not None]
        return [x.detach() for x in outputs.values()], copy_gradients(weights)

    def _compute_cost(self) -> tuple[dict[str, Tensor], Any]:
        batch = self.batch
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=self.bfloat16):
            outputs = self.model(batch.streams, batch.frames, batch.keys_B)
        return outputs, self._criterion(outputs, batch.targets, batch.num_labels)


class Peer:
    """Somebody else's network; sequences are padded with frames that have no label."""

    def __init__(self, case: Case, size: Size, device: torch.device, clone: Path | None) -> None:
        cuda = device.type == "cuda"
        layers = pytorch_kaldis(clone, cuda=cuda) if clone else PEERS[case.network][1]
        network = layers(size.inputs, size.units, size.layers)
        self.net = Network(network, size.units, size.outputs).to(device)
        self.bfloat16 = case.precision == "bfloat16"
        self._optimizer = torch.optim.AdamW(self.net.parameters(), lr=LEARNING_RATE)
        lengths = case.lengths
        self.x = pad_sequence([torch.randn(n, size.inputs) for n in lengths]).to(device)
        self._labels = [
            pad_sequence([torch.randint(p, (n,)) for n in lengths], padding_value=IGNORED)
            .flatten()
            .to(device)
            for p in size.outputs
        ]

    def take(self, path: str) -> None:
        """There is one path only."""

    def step(self) -> None:
        """Take a step: losses, backward pass, clipping, optimizer."""
        _, loss = self._compute_loss()
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), MAX_NORM)
        self._optimizer.step()
        loss.item()

    def gradients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Logits, and gradients of all matrices of the layers, with the same dropout each time."""
        torch.manual_seed(1)
        self.net.zero_grad()
        outputs, loss = self._compute_loss()
        loss.backward()
        weights = [w for w in self.net.layers.parameters() if w.dim() > 1 and w.grad is not None]
        return [x.detach() for x in outputs], copy_gradients(weights)

    def _compute_loss(self) -> tuple[list[Tensor], Tensor]:
        with torch.autocast(self.x.device.type, torch.bfloat16, enabled=self.bfloat16):
            outputs = self.net(self.x)
            losses = map(cross_entropy, outputs, self._labels)
            return outputs, cast(Tensor, sum(losses))


def build(case: Case, size: Size, device: torch.device, clone: Path | None) -> Trained:
    """The network of a case with random weights and a random batch, the same ones each time."""
    torch.manual_seed(1)
    if case.network in (LSTM, GRU):
        return Peer(case, size, device, None)
    if case.network == PYTORCH_KALDI:
        return Peer(case, size, device, clone)
    return Unit(case, size, device)


def copy_gradients(weights: Sequence[Tensor]) -> list[Tensor]:
    """Copies of the gradients of some weights."""
    return [w.grad.detach().clone() for w in weights if w.grad is not None]


def relative_error(tensors: Sequence[Tensor], references: Sequence[Tensor]) -> float:
    """The largest |x - y| / |y| over pairs of tensors, by the Euclidean norm."""
    pairs = zip(tensors, references, strict=True)
    return max(float((x.double() - y.double()).norm() / y.double().norm()) for x, y in pairs)


def set_precision(name: str) -> None:
    """Compute float32 products in TF32, or not."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    torch.backends.cudnn.allow_tf32 = name == "tf32"
