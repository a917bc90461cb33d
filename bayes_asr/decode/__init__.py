"""From a trained network to words: graphs, search, lattices, alignment, other programs' forms."""
