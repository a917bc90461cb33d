"""Transition models: every transition-id as Kaldi's own programs print it."""

import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.ark import iter_int_vectors, read_vector
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import MOST_STATES, read_transition_model, write_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel

CORPORA = ["timit_sample", "an4"]
CHAIN = """<TransitionModel>
<Topology>
<TopologyEntry>
<ForPhones>
1 2
</ForPhones>
<State> 0 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5 </State>
<State> 1 </State>
</TopologyEntry>
</Topology>
<Tuples> 3
1 0 0 3
2 0 1 4
2 0 2 5
</Tuples>
<LogProbs>
 [ 0 -0.6931472 -0.6931472 -0.6931472 -0.6931472 -0.6931472 -0.6931472 ]
</LogProbs>
</TransitionModel>
<Nnet3> whatever follows is of no concern
"""


def as_text(model: TransitionModel, path: Path) -> None:
    """The text form of a model without own self-loop pdfs, one topology entry per phone."""
    lines = ["<TransitionModel>", "<Topology>"]
    for phone, states in model.topology.items():
        lines += ["<TopologyEntry>", "<ForPhones>", f"{phone} ", "</ForPhones>"]
        for number, state in enumerate(states):
            emits = f"<PdfClass> {state.forward_class} " if state.forward_class >= 0 else ""
            moves = "".join(f"<Transition> {to} {p:.9g} " for to, p in state.transitions)
            lines.append(f"<State> {number} {emits}{moves}</State> ")
        lines.append("</TopologyEntry>")
    lines += ["</Topology>", f"<Triples> {len(model.tuples)} "]
    lines += [f"{phone} {state} {pdf} " for phone, state, pdf, _ in model.tuples]
    numbers = " ".join(f"{value:.9g}" for value in model.log_prob)
    lines += ["</Triples>", "<LogProbs>", f" [ {numbers} ]", "</LogProbs>", "</TransitionModel>"]
    path.write_text("\n".join(lines) + "\n")


def same(a: TransitionModel, b: TransitionModel) -> None:
    for name in ("pdf", "phone", "hmm_state", "self_loop", "log_prob", "tuples"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.topology == b.topology


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_transition_id_is_what_show_transitions_prints(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    root = kaldi_corpus(corpus)
    model = read_transition_model(root / "exp" / "tri3_ali" / "final.mdl")
    phones = read_symbols(root / "data" / "lang" / "phones.txt")
    state, seen = None, 0
    for line in (root / "golden" / "transitions.txt").read_text().splitlines():
        if match := re.match(r"Transition-state \d+: phone = (\S+) hmm-state = (\d+) pdf = ", line):
            state = (phones[match[1]], int(match[2]), int(line.split()[-1]))
            continue
        match = re.match(r" Transition-id = (\d+) p = (\S+) \[(self-loop|\d+ -> \d+)\]", line)
        assert match
        tid = int(match[1])
        assert (model.phone[tid], model.hmm_state[tid], model.pdf[tid]) == state
        assert model.self_loop[tid] == (match[3] == "self-loop")
        assert float(f"{np.exp(model.log_prob[tid]):.6g}") == pytest.approx(float(match[2]), 1e-5)
        seen += 1
    assert seen == model.num_transition_ids
    assert model.num_pdfs == {"timit_sample": 152, "an4": 560}[corpus]


@pytest.mark.parametrize("corpus", CORPORA)
def test_alignments_become_the_pdfs_and_phones_of_kaldi(
    kaldi_corpus: Callable[[str], Path], corpus: str
) -> None:
    root = kaldi_corpus(corpus)
    model = read_transition_model(root / "exp" / "tri3_ali" / "final.mdl")
    expected = {
        name: read_text(root / "golden" / f"ali_{name}.txt")
        for name in ("transition_ids", "pdf_ids", "phones")
    }
    counts, checked = np.zeros(model.num_pdfs), 0
    for path in sorted((root / "exp" / "tri3_ali").glob("ali.*.gz")):
        for utt, tids in iter_int_vectors(path):
            counts += np.bincount(model.pdf[tids], minlength=model.num_pdfs)
            if utt in expected["pdf_ids"]:
                assert [str(t) for t in tids] == expected["transition_ids"][utt]
                assert [str(p) for p in model.pdf[tids]] == expected["pdf_ids"][utt]
                assert [str(p) for p in model.phone[tids]] == expected["phones"][utt]
                checked += 1
    assert checked == 20
    # analyze-counts starts every count at 0.5.
    np.testing.assert_array_equal(counts + 0.5, read_vector(root / "golden" / "pdf_counts.txt"))


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("system", ["mono_ali", "tri3_ali"])
def test_writing_gives_kaldis_bytes_and_text_reads_the_same(
    kaldi_corpus: Callable[[str], Path], corpus: str, system: str, tmp_path: Path
) -> None:
    path = kaldi_corpus(corpus) / "exp" / system / "final.mdl"
    model = read_transition_model(path)
    write_transition_model(model, tmp_path / "x.mdl")
    written = (tmp_path / "x.mdl").read_bytes()
    assert path.read_bytes().startswith(written)
    assert written.endswith(b"</TransitionModel> ")
    as_text(model, tmp_path / "text.mdl")
    same(read_transition_model(tmp_path / "text.mdl"), model)


def test_chain_topology_has_a_pdf_of_its_own_on_self_loops(tmp_path: Path) -> None:
    (tmp_path / "final.mdl").write_text(CHAIN)
    model = read_transition_model(tmp_path / "final.mdl")
    assert model.pdf.tolist() == [0, 3, 0, 4, 1, 5, 2]
    assert model.phone.tolist() == [0, 1, 1, 2, 2, 2, 2]
    assert model.self_loop.tolist() == [False, True, False, True, False, True, False]
    assert model.num_pdfs == 6
    write_transition_model(model, tmp_path / "binary.mdl")
    same(read_transition_model(tmp_path / "binary.mdl"), model)
    raw = (tmp_path / "binary.mdl").read_bytes()
    assert b"<Tuples> " in raw
    assert struct.pack("<bibi", 4, -1, 4, 1) in raw  # the mark, then one entry


def test_monophone_model(tmp_path: Path) -> None:
    model = build_monophone_model([3, 1], {1: 5, 3: 2})
    assert model.num_pdfs == 7
    assert model.num_transition_ids == 14
    assert model.tuples[:, :3].tolist() == [[1, s, s] for s in range(5)] + [[3, 0, 5], [3, 1, 6]]
    assert model.self_loop[1:].tolist() == [True, False] * 7
    np.testing.assert_allclose(np.exp(model.log_prob[1:]), [0.75, 0.25] * 7, rtol=1e-6)
    write_transition_model(model, tmp_path / "final.mdl")
    same(read_transition_model(tmp_path / "final.mdl"), model)


def test_the_monophone_model_of_kaldi_is_ours_but_for_its_training(
    kaldi_corpus: Callable[[str], Path],
) -> None:
    theirs = read_transition_model(kaldi_corpus("timit_sample") / "exp" / "mono_ali" / "final.mdl")
    ours = build_monophone_model(sorted(theirs.topology), 3)
    for name in ("phone", "hmm_state", "self_loop", "pdf"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    write_transition_model(build_monophone_model([1, 2]), tmp_path / "final.mdl")
    whole = (tmp_path / "final.mdl").read_bytes()
    for content in (whole[:-1], CHAIN[: CHAIN.index("</TransitionModel>")].encode()):
        for end in range(len(content)):
            (tmp_path / "cut.mdl").write_bytes(content[:end])
            with pytest.raises(InputError, match=r"cut\.mdl"):
                read_transition_model(tmp_path / "cut.mdl")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("<TransitionModel>", "<Nnet>", "found '<Nnet>'"),
        ("1 0 0 3", "1 1 0 3", "6 log probabilities for 4"),
        ("1 0 0 3", "1 7 0 3", "HMM state 7 of phone 1 is not in the topology"),
        ("1 0 0 3", "9 0 0 3", "HMM state 0 of phone 9 is not in the topology"),
        ("1 0 0 3", "1 0 0 -3", "the pdf-id -3;"),
        ("1 0 0 3", "1 0 0 999999999", "pdf-id 999999999"),
        ("1 0 0 3", "1 0 0 99999999999", "int32"),
        ("<Tuples> 3", "<Tuples> -3", "count -3"),
        ("<Tuples> 3", "<Tuples> 2000000000", "no int32"),
        ("<Tuples> 3", "<Tuples> x", "'x' before offset"),
        ("<State> 1", "<State> 2", "topology state 2 where 1 is due"),
        ("<Transition> 1 0.5", "<Transition> 5 0.5", "goes to state 5"),
        ("<Transition> 1 0.5", "<Transition> 1 nan", "probability nan"),
        ("-0.6931472 ]", "]", "5 log probabilities for 6"),
        ("-0.6931472 ]", "nan ]", "transition-id 6 of 6 has the log probability nan"),
        ("-0.6931472 ]", "-0.69", "'</LogProbs>'"),
        ("1 2\n<", "1 zwei\n<", "'zwei' is no phone"),
        ("<Tuples> 3", "<Tüples> 3", "no Kaldi token"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, old: str, new: str, part: str) -> None:
    assert old in CHAIN
    path = tmp_path / "final.mdl"
    path.write_text(CHAIN.replace(old, new))
    with pytest.raises(InputError, match=part) as error:
        read_transition_model(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_forged_counts_do_not_allocate(tmp_path: Path) -> None:
    path = tmp_path / "final.mdl"
    head = b"\0B<TransitionModel> <Topology> "
    huge = struct.pack("<i", 2**31 - 1)
    one = struct.pack("<bii", 4, 1, 1)
    for forged in (b"\4" + huge, one + one + b"\4" + huge, one + one + struct.pack("<bi", 4, -2)):
        path.write_bytes(head + forged)
        tracemalloc.start()
        with pytest.raises(InputError):
            read_transition_model(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


@pytest.mark.slow
def test_few_bytes_do_not_unfold_into_many_transitions(tmp_path: Path) -> None:
    last = MOST_STATES
    moves = " ".join(f"<Transition> {state} 0.01" for state in range(1, last + 1))
    classes = "<ForwardPdfClass> 0 <SelfLoopPdfClass> 1"
    states = [f"<State> {n} {classes} {moves} </State>" for n in range(last)]
    entry = "\n".join((*states, f"<State> {last} </State>"))
    model = re.sub(r"<State> 0.*<State> 1 </State>", entry, CHAIN, flags=re.S)
    tuples = "<Tuples> 20000\n" + "1 0 0 1\n" * 20000 + "</Tuples>"
    path = tmp_path / "final.mdl"
    path.write_text(re.sub(r"<Tuples>.*</Tuples>", tuples, model, flags=re.S))
    tracemalloc.start()
    with pytest.raises(InputError, match="6 log probabilities for 2000000"):
        read_transition_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20
