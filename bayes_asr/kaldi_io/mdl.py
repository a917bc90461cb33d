"""The file `final.mdl`: the transition model at its head, read and written."""

import struct
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from bayes_asr.base.files import replacing
from bayes_asr.kaldi_io.binary import INTEGER, KaldiReader, open_bytes, pack_int, pack_ints
from bayes_asr.kaldi_io.transition_model import (
    Topology,
    TopologyState,
    TransitionModel,
    begin_hash,
    number_transitions,
)

NO_PHONE = "the topology has no phones in one of its entries"
MOST_STATES = 100  # of a phone, as in gen_topo.pl; the last state of an entry comes on top
LARGEST_PHONE = 100_000  # tables of moves have rows for all phone-ids up to the largest


def read_transition_model(path: Path) -> TransitionModel:
    """Read the transition model of a binary or text `final.mdl`, GMM or neural network.

    Raises InputError where the file is truncated, damaged or contradicts itself.
    """
    with open_bytes(Path(path)) as source:
        return parse_transition_model(KaldiReader(source))


def read_topology(path: Path) -> Topology:
    """Read the file `topo` of a lang folder."""
    with open_bytes(Path(path)) as source:
        return _read_topology(KaldiReader(source))


def parse_transition_model(reader: KaldiReader) -> TransitionModel:
    """Read the transition model at which `reader` stands; the acoustic model follows."""
    reader.expect("<TransitionModel>")
    topology = _read_topology(reader)
    kind = reader.expect("<Triples>", "<Tuples>")
    tuples = _read_tuples(reader, 3 if kind == "<Triples>" else 4)
    reader.expect(kind.replace("<", "</"))
    reader.expect("<LogProbs>")
    log_prob = reader.reals()
    reader.expect("</LogProbs>")
    reader.expect("</TransitionModel>")
    _check(topology, tuples, log_prob, reader)
    return number_transitions(topology, tuples, log_prob)


def hash_transitions(path: Path) -> str:
    """The hash of what the transition-ids of a model file stand for."""
    return begin_hash(read_transition_model(path)).hexdigest()


def write_transition_model(model: TransitionModel, path: Path) -> None:
    """Write `model` in Kaldi's binary format, complete or not at all."""
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(b"\0B" + pack_transition_model(model))


def pack_transition_model(model: TransitionModel) -> bytes:
    """The binary form of a model, without the mark of binary files before it."""
    # Kaldi writes triples where no self-loop has a pdf-class of its own, as before chain models.
    simple = all(
        state.forward_class == state.self_loop_class
        for states in model.topology.values()
        for state in states
    )
    name, width = (b"Triples", 3) if simple else (b"Tuples", 4)
    parts = [b"<TransitionModel> ", _pack_topology(model.topology, simple)]
    parts += [b"<%s> " % name, pack_int(len(model.tuples))]
    parts += [pack_int(int(value)) for row in model.tuples for value in row[:width]]
    parts += [b"</%s> <LogProbs> FV " % name, pack_int(len(model.log_prob))]
    parts += [model.log_prob.astype("<f4").tobytes(), b"</LogProbs> </TransitionModel> "]
    return b"".join(parts)


def _check(
    topology: Topology, tuples: np.ndarray, log_prob: np.ndarray, reader: KaldiReader
) -> None:
    """Refuse a model that contradicts itself, before its transitions are laid out one by one."""
    total = 0
    for phone, number, *pdfs in tuples.tolist():
        if not 0 <= number < len(topology.get(phone, ())):
            raise reader.fail(f"HMM state {number} of phone {phone} is not in the topology")
        # Every pdf belongs to a state: a pdf-id beyond this bound is damage, and costs memory.
        if wild := [pdf for pdf in pdfs if not 0 <= pdf < 2 * len(tuples)]:
            where = f"HMM state {number} of phone {phone}"
            raise reader.fail(f"{where} has the pdf-id {wild[0]}; there are {len(tuples)} states")
        total += len(topology[phone][number].transitions)
    if len(log_prob) != total + 1:
        raise reader.fail(f"{len(log_prob) - 1} log probabilities for {total} transition-ids")
    if len(wrong := np.flatnonzero(~np.isfinite(log_prob))):
        tid = wrong[0]
        raise reader.fail(f"transition-id {tid} of {total} has the log probability {log_prob[tid]}")


def _read_tuples(reader: KaldiReader, width: int) -> np.ndarray:
    rows = []
    for _ in range(reader.count()):
        row = [reader.integer() for _ in range(width)]
        rows.append(row if width == 4 else [*row, row[2]])
    return np.array(rows, np.int32).reshape(-1, 4)


def _read_topology(reader: KaldiReader) -> Topology:
    reader.expect("<Topology>")
    read = _read_binary_topology if reader.binary else _read_text_topology
    topology = read(reader)
    if not topology:
        raise reader.fail("the topology has no phones")
    for phone in topology:
        if not 0 < phone <= LARGEST_PHONE:
            raise reader.fail(f"the topology has phone {phone}; they count from 1, to 100000")
    return topology


def _read_binary_topology(reader: KaldiReader) -> Topology:
    phones, entry_of = reader.integers(), reader.integers()
    count = reader.integer()
    extended = count == -1  # the mark of topologies whose self-loops have their own pdf-class
    entries = [
        _read_binary_entry(reader, extended) for _ in range(reader.count() if extended else count)
    ]
    reader.expect("</Topology>")
    for phone in phones.tolist():
        if not (0 < phone < len(entry_of) and 0 <= entry_of[phone] < len(entries)):
            raise reader.fail(f"phone {phone} has no topology entry: {len(entries)} entries")
    if {*entry_of[phones].tolist()} != {*range(len(entries))}:
        raise reader.fail(NO_PHONE)
    # In the order of the entries, so that writing numbers them as they were.
    return {p: entries[entry_of[p]] for p in sorted(phones.tolist(), key=entry_of.__getitem__)}


def _read_binary_entry(reader: KaldiReader, extended: bool) -> tuple[TopologyState, ...]:
    states = []
    for _ in range(reader.count()):
        forward = reader.integer()
        self_loop = reader.integer() if extended else forward
        transitions = tuple((reader.integer(), reader.real()) for _ in range(reader.count()))
        states.append(TopologyState(forward, self_loop, transitions))
    return _check_entry(states, reader)


def _check_entry(states: list[TopologyState], reader: KaldiReader) -> tuple[TopologyState, ...]:
    """Refuse what Kaldi refuses (HmmTopology::Check), and a state on no path through the phone."""
    last = len(states) - 1
    if not 1 <= last <= MOST_STATES:
        raise reader.fail(f"a topology entry of {len(states)} states, not 2 to {MOST_STATES + 1}")
    for number, state in enumerate(states):
        where = f"topology state {number} of {len(states)}"
        targets = [target for target, _ in state.transitions]
        for target, prob in state.transitions:
            if not (0 <= target <= last and 0 < prob < np.inf):
                raise reader.fail(f"{where} goes to state {target} with probability {prob}")
        silent = state.forward_class < 0 or state.self_loop_class < 0
        if len(set(targets)) < len(targets) or (silent and {number, last} & set(targets)):
            shown = ", ".join(map(str, targets[:10])) + (", ..." if len(targets) > 10 else "")
            raise reader.fail(f"{where} goes to states {shown}, twice or without a pdf-class")
        if number == last and (targets or state.forward_class >= 0):
            raise reader.fail(f"{where} is the last, which has neither pdf-class nor transitions")
    classes = {c for s in states for c in (s.forward_class, s.self_loop_class)} - {-1}
    # Classes that count up from 0 are no more than two for each state.
    if classes != set(range(len(classes))):
        raise reader.fail(f"a topology entry of pdf-classes {sorted(classes)}, not 0, 1, ...")
    onward = [{target for target, _ in state.transitions} for state in states]
    back = [{s for s, to in enumerate(onward) if state in to} for state in range(last + 1)]
    if len(_reach(onward, 0)) <= last or len(_reach(back, last)) <= last:
        raise reader.fail(f"a topology entry of {len(states)} states, not all on a path through it")
    return tuple(states)


def _reach(neighbours: Sequence[Collection[int]], start: int) -> set[int]:
    """The states that are reached from one, itself among them."""
    reached, queue = {start}, [start]
    for state in queue:  # which grows
        new = set(neighbours[state]) - reached
        reached |= new
        queue += new
    return reached


def _read_text_topology(reader: KaldiReader) -> Topology:
    topology: dict[int, tuple[TopologyState, ...]] = {}
    while reader.expect("<TopologyEntry>", "</Topology>") == "<TopologyEntry>":
        reader.expect("<ForPhones>")
        phones: dict[int, None] = {}
        while (word := reader.token()) != "</ForPhones>":
            if not INTEGER.fullmatch(word):
                raise reader.fail(f"{word[:20]!r} is no phone")
            phone = int(word)
            if phone in phones or phone in topology:
                raise reader.fail(f"the topology has phone {phone} twice")
            phones[phone] = None
        if not phones:
            raise reader.fail(NO_PHONE)
        states: list[TopologyState] = []
        while reader.expect("<State>", "</TopologyEntry>") == "<State>":
            states.append(_read_text_state(reader, len(states)))
        topology |= dict.fromkeys(phones, _check_entry(states, reader))
    return topology


def _read_text_state(reader: KaldiReader, number: int) -> TopologyState:
    index = reader.integer()
    if index != number:
        raise reader.fail(f"topology state {index} where {number} is due")
    forward = self_loop = -1
    transitions = []
    keywords = ("<PdfClass>", "<ForwardPdfClass>", "<SelfLoopPdfClass>", "<Transition>", "</State>")
    while (word := reader.expect(*keywords)) != "</State>":
        if word == "<Transition>":
            transitions.append((reader.integer(), reader.real()))
        elif word == "<SelfLoopPdfClass>":
            self_loop = reader.integer()
        else:
            forward = reader.integer()
            self_loop = forward if word == "<PdfClass>" else self_loop
    return TopologyState(forward, self_loop, tuple(transitions))


def _pack_topology(topology: Topology, simple: bool) -> bytes:
    # Phones with equal states share an entry, numbered in the order of the first phones.
    entries = list(dict.fromkeys(topology.values()))
    entry_of = [-1] * (max(topology, default=0) + 1)
    for phone, states in topology.items():
        entry_of[phone] = entries.index(states)
    parts = [b"<Topology> ", pack_ints(sorted(topology)), pack_ints(entry_of)]
    parts += [pack_int(len(entries))] if simple else [pack_int(-1), pack_int(len(entries))]
    for states in entries:
        parts.append(pack_int(len(states)))
        for state in states:
            parts.append(pack_int(state.forward_class))
            parts += [] if simple else [pack_int(state.self_loop_class)]
            parts.append(pack_int(len(state.transitions)))
            parts += [pack_int(to) + struct.pack("<bf", 4, prob) for to, prob in state.transitions]
    return b"".join([*parts, b"</Topology> "])
