"""Gradients of all processes, added up: through memory that they share, or by messages."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bayes_asr.base.processes import group


class GradientSum:
    """Adds up the gradients of all processes, in place, in each of them.

    On one machine, the processes write them to memory that all see, and each adds up one part;
    messages take longer. They are sent between machines, on GPUs, and without such memory, during
    the backward pass.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        """Agree with all other processes on how; they are made together, and called together."""
        self._parameters = list(parameters)
        self._shared = self._memory() if group.size() > 1 else None
        self._messages: dict[nn.Parameter, dist.Work] = {}  # that are on their way

    @contextmanager
    def overlapping(self) -> Iterator[None]:
        """Send the gradients of the backward pass inside while it goes on; a call ends that."""
        unsent = self._find_trained()

        def send_next(_: Tensor) -> None:
            # All processes send in one order, from the last layer to the first.
            while unsent and unsent[-1].grad is not None:
                self._send(unsent.pop())

        sends = group.size() > 1 and self._shared is None
        hooks = [p.register_post_accumulate_grad_hook(send_next) for p in unsent if sends]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def __call__(self) -> None:
        """Add them up; those of parameters that are not trained stay None."""
        if group.size() == 1:
            return
        trained = self._find_trained()
        for p in trained:
            if p.grad is None:  # where a process has no utterance
                p.grad = torch.zeros_like(p)
        if self._shared is not None:
            _through_memory([p.grad for p in trained if p.grad is not None], self._shared)
            return
        for p in reversed(trained):
            if p not in self._messages:
                self._send(p)
        with group.explain_lost_peers():
            for p, message in self._messages.items():
                group.finish(message, p)
        self._messages.clear()

    def _find_trained(self) -> list[nn.Parameter]:
        return [p for p in self._parameters if p.requires_grad]

    def _send(self, parameter: nn.Parameter) -> None:
        """Begin to add up the gradient of a parameter."""
        with group.explain_lost_peers():
            self._messages[parameter] = group.start_sum(cast(Tensor, parameter.grad))

    def _memory(self) -> Tensor | None:
        """[P + 1, X] for the X gradients of each of P processes and their sum, if they share it."""
        kinds = {(p.device.type, p.dtype) for p in self._parameters}
        alike = len(kinds) == 1 and not self._parameters[0].is_cuda
        rows, dtype = group.size() + 1, self._parameters[0].dtype
        # A size of 0 makes all processes agree on messages, even if only one cannot share.
        size = rows * sum(p.nbytes for p in self._parameters) if alike else 0
        memory = group.map_shared_memory(size)
        return torch.frombuffer(memory, dtype=dtype).view(rows, -1) if memory else None


def _through_memory(gradients: list[Tensor], shared_PX: Tensor) -> None:
    """Add up parts of equal size, one in each process.

    A process that writes again waits first for all that read what it wrote: its gradients were read
    before the second wait, and the sums of a step are before the first wait of the next.
    """
    own_PX, sum_X = shared_PX[:-1], shared_PX[-1]
    sizes, rank = [g.numel() for g in gradients], dist.get_rank()
    count = sum(sizes)
    # Each process writes its own row, so no lock is needed.
    torch.cat([g.flatten() for g in gradients], out=own_PX[rank, :count])
    group.wait()
    # Reduce-scatter: each process sums one part; reading all parts afterwards is the all-gather.
    part = slice(count * rank // len(own_PX), count * (rank + 1) // len(own_PX))
    torch.sum(own_PX[:, part], 0, out=sum_X[part])
    group.wait()
    for g, total in zip(gradients, sum_X[:count].split(sizes), strict=True):
        g.copy_(total.view_as(g))
