"""Numerator of LF-MMI: the paths of the denominator graph that an alignment allows.

Kaldi: chain-supervision.cc, AlignmentToProtoSupervision, ProtoSupervisionToSupervision and
AddWeightToSupervisionFst. There each sequence of pdfs has its likeliest path through the
denominator graph, here all of them, so that numerators are exactly parts of the denominator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.transducers import PhoneAcceptor
from bayes_asr.decode.lattices.aligned import AlignedLattice
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.tasks.chain.denominator_graph import DenominatorGraph

Numerator = AlignedLattice | np.ndarray
"""Supervision of an utterance: paths, or the allowed pdfs of each output frame, bool [T, P]."""


@dataclass(frozen=True)
class Tolerance:
    """Frames of the alignment by which a phone may begin earlier and end later.

    One of `frame_subsampling_factor` frames has an output. Names and defaults of Kaldi's recipes.
    """

    left_tolerance: int = 5
    right_tolerance: int = 5
    frame_subsampling_factor: int = 3

    def __post_init__(self) -> None:
        window = self.left_tolerance + self.right_tolerance + 1
        if min(self.left_tolerance, self.right_tolerance) < 0 or window < (
            self.frame_subsampling_factor
        ):
            raise InputError(
                f"tolerances of {self.left_tolerance} and {self.right_tolerance} frames: give 0 or"
                f" more, {self.frame_subsampling_factor - 1} together, or a phone may have no frame"
            )

    def allowed_phones(self, phones: Sequence[int], durations: Sequence[int]) -> list[set[int]]:
        """Allowed phones of each of the ceil(T / factor) output frames.

        phones, durations: those of an alignment of T frames.
        """
        ends = np.cumsum(durations)
        frames, factor = int(ends[-1]), self.frame_subsampling_factor
        allowed: list[set[int]] = [set() for _ in range(-(-frames // factor))]
        for phone, end, duration in zip(phones, ends.tolist(), durations, strict=True):
            begin = max(0, end - duration - self.left_tolerance)
            end_frame = min(frames, end + self.right_tolerance)
            # Output frame t is that of input frame t * factor, which lies in [begin, end_frame).
            for t in range(-(-begin // factor), -(-end_frame // factor)):
                allowed[t].add(int(phone))
        return allowed

    def allowed_pdfs(
        self, phones: Sequence[int], durations: Sequence[int], model: TransitionModel
    ) -> np.ndarray:
        """Allowed pdfs of each output frame, which are those of its phones, bool [T', P]."""
        allowed = self.allowed_phones(phones, durations)
        pdfs_of = {phone: model.pdf[1:][model.phone[1:] == phone] for phone in {*phones}}
        mask = np.zeros((len(allowed), model.num_pdfs), bool)
        for row, phones_of_frame in zip(mask, allowed, strict=True):
            for phone in phones_of_frame:
                row[pdfs_of[phone]] = True
        return mask


class NumeratorBuilder:
    """Builder of numerators from alignments, all with one model, tree and denominator graph."""

    def __init__(
        self, model: TransitionModel, tree: Tree, graph: DenominatorGraph, tolerance: Tolerance
    ) -> None:
        self.model, self.tree, self.graph, self.tolerance = model, tree, graph, tolerance
        self._hmms = Hmms(model, tree)
        counts = np.bincount(graph.source, minlength=graph.num_states)
        self._offsets = np.concatenate([[0], np.cumsum(counts)])
        self._log_prob, self._log_initial = np.log(graph.prob), np.log(graph.initial)

    def build(self, phones: Sequence[int], durations: Sequence[int]) -> AlignedLattice:
        """Return the paths through the denominator graph that an alignment allows.

        phones, durations: of an alignment, the latter in its frames. The cells of the lattice are
        pairs of an output frame and a pdf-id plus one, in the place of a transition-id. InputError
        where there is no path.
        """
        if not len(phones):
            raise InputError("the alignment has no phones; leave the utterance out")
        phone_acceptor = PhoneAcceptor(
            [(n, int(p), 0.0, n + 1) for n, p in enumerate(phones)], {len(phones): 0}
        )
        transition_fst = assemble(*expand_context(phone_acceptor, self.tree), self._hmms)
        allowed = self.tolerance.allowed_phones(phones, durations)
        # Pdf sequences are made unique first: each must be counted once, as in the denominator.
        steps = _determinize(transition_fst, self.model, allowed)
        if not steps:
            raise InputError(
                f"{len(phones)} phones do not fit into {len(allowed)} output frames; raise the"
                " tolerances, or leave the utterance out"
            )
        layers = self._compose(steps)
        if not layers[-1].reached:
            raise InputError(
                "the denominator graph has no path of its phones; estimate the phone language"
                " model of these alignments"
            )
        return self._to_lattice(layers)

    def _compose(self, steps: Sequence["_FrameTransitions"]) -> list["_FrameArcs"]:
        """Compose the steps with the denominator graph; returns the arcs of each output frame.

        A node is a pair of a place of the steps and a state of the graph.
        """
        graph, layers = self.graph, []
        place, state = np.zeros(graph.num_states, np.int64), np.arange(graph.num_states)
        for step in steps:
            # All arcs from the graph state of each node; `within` numbers those of a node from 0.
            counts = self._offsets[state + 1] - self._offsets[state]
            node = np.repeat(np.arange(len(state)), counts)
            within = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
            arc = self._offsets[state][node] + within
            onward = step.next_places(place[node], graph.pdf[arc])
            node, arc, onward = (x[onward >= 0] for x in (node, arc, onward))
            key = onward * graph.num_states + graph.target[arc]
            reached, target = np.unique(key, return_inverse=True)
            layers.append(_FrameArcs(state, len(reached), node, target, arc))
            place, state = np.divmod(reached, graph.num_states)
        return _trim(layers)

    def _to_lattice(self, layers: Sequence["_FrameArcs"]) -> AlignedLattice:
        """Lattice of the layers, with one start and one end state.

        Its arcs are those from the start into the first nodes, which have the log initial
        probabilities of the graph, those of the layers, and those from the last nodes to the end.
        """
        nodes = np.array([layer.states for layer in layers] + [layers[-1].reached])
        offset = 1 + np.cumsum([0, *nodes])  # the number of the first node before each frame
        into, end = np.arange(nodes[0]), np.arange(nodes[-1])
        begins = [place + layer.source for place, layer in zip(offset, layers, strict=False)]
        leads = [place + layer.target for place, layer in zip(offset[1:], layers, strict=False)]
        arc = np.concatenate([layer.arc for layer in layers])
        frames = np.repeat(np.arange(len(layers)), [len(layer.arc) for layer in layers])
        # Arcs of one frame and pdf share a cell, whose score is looked up once.
        width = self.graph.num_pdfs + 1
        cell_keys, cells = np.unique(frames * width + self.graph.pdf[arc] + 1, return_inverse=True)
        frame, label = (x.astype(np.int32) for x in np.divmod(cell_keys, width))
        lengths = np.concatenate([np.zeros_like(into), np.ones_like(arc), np.zeros_like(end)])
        return AlignedLattice(
            num_states=int(offset[-1]) + 1,
            num_frames=len(layers),
            source=np.concatenate([0 * into, *begins, offset[-2] + end]).astype(np.int32),
            target=np.concatenate([1 + into, *leads, offset[-1] + 0 * end]).astype(np.int32),
            weight=np.concatenate(
                [self._log_initial[layers[0].state], self._log_prob[arc], 0.0 * end]
            ),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            cells=cells.astype(np.int32),
            frame=frame,
            tid=label,
        )


@dataclass(frozen=True)
class _FrameArcs:
    """Arcs [A] of the denominator graph in one frame, from nodes [N] to `reached` nodes.

    `state` [N]: that of the graph in which a node is; `source`, `target`, `arc` int64 [A].
    """

    state: np.ndarray
    reached: int
    source: np.ndarray
    target: np.ndarray
    arc: np.ndarray

    @property
    def states(self) -> int:
        """The number of nodes N."""
        return len(self.state)


def _trim(layers: Sequence[_FrameArcs]) -> list[_FrameArcs]:
    """Remove arcs and nodes from which the end is not reached, and number the remaining nodes."""
    useful = np.ones(layers[-1].reached, bool)
    trimmed = []
    for layer in reversed(layers):
        onward = useful[layer.target]
        # cumsum - 1 maps the old numbers of useful nodes to 0, 1, ...
        source, arc = layer.source[onward], layer.arc[onward]
        target = (np.cumsum(useful) - 1)[layer.target[onward]]
        reached = int(useful.sum())
        useful = np.bincount(source, minlength=layer.states) > 0
        source = (np.cumsum(useful) - 1)[source]
        trimmed.append(_FrameArcs(layer.state[useful], reached, source, target, arc))
    return trimmed[::-1]


@dataclass(frozen=True)
class _FrameTransitions:
    """Transitions of one frame by pdf: place * width + pdf as sorted keys [K], next places [K]."""

    width: int
    key: np.ndarray
    place: np.ndarray

    def next_places(self, place: np.ndarray, pdf: np.ndarray) -> np.ndarray:
        """The next place of each pair, -1 where there is none."""
        key_of_pair = place * self.width + pdf
        # A key above all others is searched for beyond the end.
        at = np.minimum(np.searchsorted(self.key, key_of_pair), len(self.key) - 1)
        return np.where(self.key[at] == key_of_pair, self.place[at], -1)


def _determinize(
    fst: Fst, model: TransitionModel, allowed: Sequence[set[int]]
) -> list[_FrameTransitions]:
    """Determinize an acceptor of transition-ids by pdfs, in the frames in which it is allowed.

    A place is the set of states that one beginning of a pdf sequence leads to (subset
    construction), numbered from 0 in each frame. Empty where no sequence comes to the end.
    """
    # States that cannot reach the end in time are left out at once, not after the last frame.
    may_end = _find_coaccessible(fst, model, allowed)
    places: list[tuple[int, ...]] = [(fst.start,)]
    bounds, label, target = (x.tolist() for x in (fst.offsets, fst.ilabel, fst.nextstate))
    phone_of, pdf_of = model.phone.tolist(), model.pdf.tolist()
    width = model.num_pdfs
    steps = []
    for phones, ahead in zip(allowed, may_end, strict=True):
        number_of: dict[tuple[int, ...], int] = {}
        rows: list[tuple[int, int]] = []
        for place, states in enumerate(places):
            states_by_pdf: dict[int, set[int]] = {}
            for state in states:
                for arc in range(bounds[state], bounds[state + 1]):
                    if phone_of[label[arc]] in phones and ahead[target[arc]]:
                        states_by_pdf.setdefault(pdf_of[label[arc]], set()).add(target[arc])
            # Equal sets of states are one place, whatever sequences lead to them.
            for pdf, reached in sorted(states_by_pdf.items()):
                number = number_of.setdefault(tuple(sorted(reached)), len(number_of))
                rows.append((place * width + pdf, number))
        if not rows:
            return []
        key, onward = np.array(rows).T
        steps.append(_FrameTransitions(width, key, onward))
        places = list(number_of)
    return steps


def _find_coaccessible(
    fst: Fst, model: TransitionModel, allowed: Sequence[set[int]]
) -> list[list[bool]]:
    """Flags of the states [S] from which the end can be reached in time, after each frame [T]."""
    source = np.repeat(np.arange(fst.num_states), np.diff(fst.offsets))
    phone = model.phone[fst.ilabel]
    ahead = np.isfinite(fst.final)
    coaccessible = [ahead]
    for phones in allowed[:0:-1]:  # from the last frame to the second
        useful = ahead[fst.nextstate] & np.isin(phone, list(phones))
        ahead = np.bincount(source[useful], minlength=fst.num_states) > 0
        coaccessible.append(ahead)
    return [row.tolist() for row in reversed(coaccessible)]
