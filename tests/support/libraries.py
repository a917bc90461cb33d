"""All compiled libraries of the package."""

from bayes_asr.base.processes import shared_memory
from bayes_asr.decode.lattices import compiled as lattices
from bayes_asr.decode.search import compiled as decoder
from bayes_asr.gmm import compiled as gmm
from bayes_asr.nn.kernels.cpu import library as kernels
from bayes_asr.tasks.chain import compiled as chain

LIBRARIES = [module.LIBRARY for module in (shared_memory, chain, decoder, gmm, lattices, kernels)]
