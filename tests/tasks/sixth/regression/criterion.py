"""The squared error."""

from collections.abc import Mapping

from torch import Tensor

from bayes_asr.nn.criteria import Cost


class SquaredError:
    """The squared error of the first target."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        (self.name,) = weights

    def __call__(
        self, outputs: Mapping[str, Tensor], targets: Mapping[str, Tensor], frames: float
    ) -> Cost:
        """Return the cost of outputs [N, 1] for targets [N]."""
        loss = (outputs[self.name][:, 0].float() - targets[self.name]).square().sum() / frames
        return Cost(loss, loss.detach(), None)
