"""Tensors on their way to a GPU, while it computes."""

import torch
from torch import Tensor

CPU = torch.device("cpu")


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy to a GPU through pinned memory, asynchronously."""
    return x if device == CPU else x.pin_memory().to(device, non_blocking=True)
