"""HMM topologies of phones, and the file `topo` of a lang folder (Kaldi's utils/gen_topo.pl)."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.initial_mdl import build_left_to_right
from bayes_asr.kaldi_io.mdl import MOST_STATES
from bayes_asr.kaldi_io.text import write_lines
from bayes_asr.kaldi_io.transition_model import Topology, TopologyState


def build_topology(
    nonsilence: Sequence[int],
    silence: Sequence[int],
    nonsilence_states: int = 3,
    silence_states: int = 5,
) -> Topology:
    """Return the topology of phone-ids: from left to right, and with skips for silence.

    The inner states of silence lead to each other in any order. InputError for numbers of states
    that gen_topo.pl refuses: outside 1 to 100, and 2 for silence.
    """
    if not 1 <= nonsilence_states <= MOST_STATES:
        raise InputError(f"phones have 1 to {MOST_STATES} states, not {nonsilence_states}")
    if silence_states == 2 or not 1 <= silence_states <= MOST_STATES:
        raise InputError(f"silence has 1 or 3 to {MOST_STATES} states, not {silence_states}")
    left_to_right = build_left_to_right(nonsilence_states)
    silent = build_silence(silence_states) if silence_states > 1 else build_left_to_right(1)
    return dict.fromkeys(nonsilence, left_to_right) | dict.fromkeys(silence, silent)


def build_silence(states: int) -> tuple[TopologyState, ...]:
    """The first state enters any but the last; inner ones lead to each other and to the last."""
    share = 1.0 / (states - 1)
    targets = [range(states - 1)] + [range(1, states)] * (states - 2)
    skipping = [tuple((target, share) for target in onward) for onward in targets]
    emitting = (TopologyState(i, i, to) for i, to in enumerate(skipping))
    return (*emitting, *build_left_to_right(states)[-2:])


def build_chain_topology(phones: Sequence[int]) -> Topology:
    """Return the topology of LF-MMI (Kaldi's steps/nnet3/chain/gen_topo.py): one state a phone.

    It is passed in one frame or more, of which the first has a pdf-class of its own.
    """
    # Forward pdf-class 0, self-loop 1: the first frame of a phone and those after it.
    emitting = TopologyState(0, 1, ((0, 0.5), (1, 0.5)))
    return dict.fromkeys(phones, (emitting, TopologyState(-1, -1, ())))


def write_topology(topology: Topology, path: Path) -> None:
    """Write `topo` as gen_topo.pl does: one entry for neighbouring phones of the same states."""
    lines = ["<Topology>"]
    for entry, phones in groupby(topology, topology.__getitem__):
        lines += ["<TopologyEntry>", "<ForPhones>", " ".join(map(str, phones)), "</ForPhones>"]
        lines += [_describe_state(*numbered) for numbered in enumerate(entry)]
        lines.append("</TopologyEntry>")
    write_lines([*lines, "</Topology>"], path)


def _describe_state(number: int, state: TopologyState) -> str:
    parts = [f"<State> {number}"]
    if state.forward_class == state.self_loop_class >= 0:
        parts.append(f"<PdfClass> {state.forward_class}")
    elif state.forward_class >= 0:
        parts.append(f"<ForwardPdfClass> {state.forward_class}")
        parts.append(f"<SelfLoopPdfClass> {state.self_loop_class}")
    parts += [f"<Transition> {target} {share:.15g}" for target, share in state.transitions]
    return " ".join([*parts, "</State>"])
