"""Denominator graph of LF-MMI from the phone language model: context, HMMs, pdfs.

Kaldi: chain-make-den-fst, CreateDenominatorFst.
"""

from dataclasses import replace

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.hmm import add_self_loops
from bayes_asr.decode.graph.transducers import PhoneAcceptor, sort_arcs, sources
from bayes_asr.decode.graph.transition_index import transition_costs
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.tasks.chain.pushing import push


def build_denominator_fst(phone_lm: PhoneAcceptor, model: TransitionModel, tree: Tree) -> Fst:
    """Return the acceptor of the pdf-ids plus one of all phone sequences of the language model.

    It is pushed, so that no state loses the probability of an end there. Transition probabilities
    have the scale 1, self-loops too, as decoding graphs for LF-MMI must. InputError for a tree that
    asks for phones to the right, or other phones than the model's.
    """
    if tree.center != tree.width - 1:
        raise InputError(
            f"the tree asks for {tree.width - 1 - tree.center} phones to the right of a phone; a"
            " tree for lfmmi asks for none, as that of `bayes-asr gmm chain-tree`"
        )
    hmms = Hmms(model, tree)
    graph = assemble(*expand_context(phone_lm, tree), hmms)
    # Self-loops leave before the costs are set, since `add_self_loops` sets theirs with its scale.
    loops = model.self_loop[graph.ilabel]
    forward_costs = transition_costs(model, hmms.transitions, 1.0, self_loop_scale=0.0)
    weight = graph.weight + forward_costs[graph.ilabel]
    columns = (sources(graph), graph.ilabel, graph.olabel, weight, graph.nextstate)
    source, ilabel, olabel, weight, nextstate = (column[~loops] for column in columns)
    ends = (graph.final, graph.start)
    without_loops = sort_arcs(source, ilabel, olabel, weight, nextstate, *ends)
    with_loops = add_self_loops(without_loops, model, 1.0, hmms.transitions)
    # Label 0 reads nothing, so pdf-ids are stored plus one.
    labels = model.pdf[with_loops.ilabel] + 1
    return push(replace(with_loops, ilabel=labels, olabel=labels))
