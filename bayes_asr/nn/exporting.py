"""Whether a network is being written down for other programs."""

import torch

# torch 2.6 does not tell exporting from compiling: there what is compiled runs the reference too.
is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
