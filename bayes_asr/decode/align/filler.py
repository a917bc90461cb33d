"""The filler: a phone more, which stands for any sound and has a pdf of its own."""

import numpy as np

from bayes_asr.decode.graph.assembly import Hmm, Hmms
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.transition_model import TopologyState, TransitionModel

STAYING = 0.75  # the probability of the filler's self-loop, as of a phone's states


class HmmsWithFiller(Hmms):
    """The HMMs of a model, and one of a phone more, whose only state has a pdf of its own."""

    def __init__(self, model: TransitionModel, tree: Tree) -> None:
        super().__init__(_add_filler_phone(model), tree)
        self.filler = (0,) * tree.center + (max(self.model.topology),)

    def __getitem__(self, window: tuple[int, ...]) -> Hmm:
        if window == self.filler and window not in self._of_window:
            self._of_window[window] = self._build(window[-1], [self.model.num_pdfs - 1])
        return super().__getitem__(window)


def _add_filler_phone(model: TransitionModel) -> TransitionModel:
    """The model with one phone, one pdf and two transition-ids more: a self-loop and the end."""
    phone, pdf = max(model.topology) + 1, model.num_pdfs
    states = (
        TopologyState(0, 0, ((0, STAYING), (1, 1 - STAYING))),
        TopologyState(-1, -1, ()),
    )
    return TransitionModel(
        pdf=np.append(model.pdf, [pdf, pdf]),
        phone=np.append(model.phone, [phone, phone]),
        hmm_state=np.append(model.hmm_state, [0, 0]),
        self_loop=np.append(model.self_loop, [True, False]),
        log_prob=np.append(model.log_prob, np.log([STAYING, 1 - STAYING])),
        topology={**model.topology, phone: states},
        tuples=np.append(model.tuples, [[phone, 0, pdf, pdf]], axis=0),
    )
