"""What training is compared with: a loop over frames in the manner of pytorch-kaldi, torch's own
units, SpeechBrain's Li-GRU where it is installed, and pytorch-kaldi's own from a clone.

All are stacks of layers in both directions with a linear head for each kind of label: features
[T, B, F] -> logits [T*B, outputs] of each head.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

DROPOUT = 0.2


class TimeStepLoop(nn.Module):
    """A layer of Li-GRUs [T, B, F] -> [T, B, 2H], both directions with the same weights.

    As in pytorch-kaldi's `liGRU`: one product a gate and frame, an autograd node for every
    operation, the terms of a frame taken by an index, the two directions as twice the batch.
    """

    def __init__(self, inputs: int, units: int) -> None:
        """Make weights and normalisation of the two gates."""
        super().__init__()
        self.W = nn.ModuleList(nn.Linear(inputs, units, bias=False) for _ in range(2))
        self.V = nn.ModuleList(nn.Linear(units, units, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(units, momentum=0.05) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Run the loop."""
        x = torch.cat((x, x.flip(0)), 1)
        terms = [
            norm(W(x).flatten(0, 1)).view(*x.shape[:2], -1)
            for W, norm in zip(self.W, self.norms, strict=True)
        ]
        h = x.new_zeros(x.shape[1], terms[0].shape[2])
        mask = torch.bernoulli(torch.full_like(h, 1 - DROPOUT))
        outputs = []
        for t in range(len(x)):
            z = torch.sigmoid(terms[0][t] + self.V[0](h))
            h = z * h + (1 - z) * (torch.relu(terms[1][t] + self.V[1](h)) * mask)
            outputs.append(h)
        forward, backward = torch.stack(outputs).chunk(2, 1)
        return torch.cat((forward, backward.flip(0)), 2)


class FirstOutput(nn.Module):
    """A unit that also returns its state, without that."""

    def __init__(self, unit: nn.Module) -> None:
        """Keep the unit."""
        super().__init__()
        self.unit = unit

    def forward(self, x: Tensor) -> Tensor:
        """Return what the next layer reads."""
        return self.unit(x)[0]


class Network(nn.Module):
    """Recurrent layers and their heads."""

    def __init__(self, layers: nn.Module, units: int, outputs: Sequence[int]) -> None:
        """Put heads on the layers."""
        super().__init__()
        self.layers = layers
        self.heads = nn.ModuleList(nn.Linear(2 * units, n) for n in outputs)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Logits [T*B, outputs] of each head."""
        h = self.layers(x).flatten(0, 1)
        return [head(h) for head in self.heads]


def time_step_loop(inputs: int, units: int, layers: int) -> nn.Module:
    """The reference: a stack of loops over frames."""
    sizes = [inputs] + [2 * units] * (layers - 1)
    return nn.Sequential(*(TimeStepLoop(size, units) for size in sizes))


def torchs(kind: Callable[..., nn.RNNBase]) -> Callable[[int, int, int], nn.Module]:
    """torch's own unit, without normalisation and dropout."""
    return lambda inputs, units, layers: FirstOutput(
        kind(inputs, units, layers, bidirectional=True)
    )


def speechbrains(inputs: int, units: int, layers: int) -> nn.Module:
    """SpeechBrain's Li-GRU, which reads [B, T, F] and shares weights between directions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from speechbrain.nnet.RNN import LiGRU

    class TimeFirst(LiGRU):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.transpose(0, 1))[0].transpose(0, 1)

    an_input = (1, None, inputs)  # other batches change it
    return TimeFirst(units, an_input, num_layers=layers, bidirectional=True, dropout=DROPOUT)


def pytorch_kaldis(clone: Path, *, cuda: bool = False) -> Callable[[int, int, int], nn.Module]:
    """pytorch-kaldi's own `liGRU`, imported from a clone; SystemExit where there is none.

    cuda: make its states and masks for a GPU.
    """
    spec = spec_from_file_location("neural_networks", clone / "neural_networks.py")
    if spec is None or spec.loader is None or not (clone / "neural_networks.py").exists():
        raise SystemExit(f"{clone}: no clone of pytorch-kaldi, which has neural_networks.py")
    if not find_spec("distutils"):  # gone with Python 3.12
        stand_in = ModuleType("distutils.util")
        vars(stand_in)["strtobool"] = lambda text: text == "True"
        sys.modules |= {"distutils": ModuleType("distutils"), "distutils.util": stand_in}
    module = module_from_spec(spec)
    spec.loader.exec_module(module)

    def ligru(inputs: int, units: int, layers: int) -> nn.Module:
        each = {"lay": str(units), "drop": str(DROPOUT), "act": "relu"}
        each |= {"use_batchnorm": "True", "use_laynorm": "False"}
        options = {f"ligru_{name}": ",".join([value] * layers) for name, value in each.items()}
        once = {"use_laynorm_inp": "False", "use_batchnorm_inp": "False", "orthinit": "True"}
        options |= {f"ligru_{name}": value for name, value in (once | {"bidir": "True"}).items()}
        made: nn.Module = module.liGRU(options | {"use_cuda": str(cuda), "to_do": "train"}, inputs)
        return made

    return ligru


PYTORCH_KALDI = "pytorch-kaldi liGRU"
REFERENCE, LSTM, GRU = "reference loop", "torch.nn.LSTM", "torch.nn.GRU"
WITHOUT_ONEDNN = ", no oneDNN"
PEERS: dict[str, tuple[bool, Callable[[int, int, int], nn.Module]]] = {
    REFERENCE: (True, time_step_loop),
    LSTM: (False, torchs(nn.LSTM)),
    GRU: (False, torchs(nn.GRU)),
    LSTM + WITHOUT_ONEDNN: (False, torchs(nn.LSTM)),
    GRU + WITHOUT_ONEDNN: (False, torchs(nn.GRU)),
}
"""name -> whether directions are tied, and (inputs, units, layers) -> its layers."""
if find_spec("speechbrain"):
    PEERS["SpeechBrain Li-GRU"] = (True, speechbrains)
