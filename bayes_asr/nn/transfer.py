"""Tensors on their way to a GPU and back, while it computes."""

import torch
from torch import Tensor

CPU = torch.device("cpu")


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy to a GPU through pinned memory, asynchronously."""
    return x if device == CPU else x.pin_memory().to(device, non_blocking=True)


def start_copy(x: Tensor) -> Tensor:
    """A copy in pinned memory, complete when the GPU has done what it was given; on a CPU, x."""
    if x.device == CPU:
        return x
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x, non_blocking=True)


def wait_for(device: torch.device) -> None:
    """Wait for what this thread has given to a GPU so far; nothing on a CPU."""
    if device.type == "cuda":
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))  # threads begin with another device
        event.synchronize()
