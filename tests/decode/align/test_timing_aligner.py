"""Forced alignment: against every way to say a few words, Kaldi's alignments and its decoder."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.decode.align.best_path import AlignOptions
from bayes_asr.decode.align.forced import align_utterance, word_spans
from bayes_asr.decode.align.pronouncer import Pronouncer, align_equal
from bayes_asr.decode.graph.lang import read_lang
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation
from bayes_asr.decode.graph.ngram import NgramModel, read_arpa
from bayes_asr.decode.graph.transducers import END, START
from bayes_asr.decode.graph.transition_index import index_transitions
from bayes_asr.decode.search.utterance import choose_engine
from bayes_asr.kaldi_io.ark import iter_int_vectors
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.tree import read_tree
from tests.support.decode_cases import golden_case

ENGINE = choose_engine()
LEXICON = [
    Pronunciation("ab", 1.0, ("a", "b")),
    Pronunciation("ab", 0.25, ("b",)),
    Pronunciation("b", 1.0, ("b",)),
    Pronunciation("aa", 0.5, ("a", "a")),
]


def toy(silence: float = 0.5, unknown: str | None = None) -> Pronouncer:
    """Three phones of two states each, without context."""
    model = build_monophone_model([1, 2, 3], 2)
    tree = build_monophone_tree({1: [0, 1], 2: [2, 3], 3: [4, 5]})
    lang = Lang(LEXICON, "sil", silence, unknown)
    return Pronouncer(lang, {"<eps>": 0, "sil": 1, "a": 2, "b": 3}, model, tree)


def real(corpus: Path) -> Pronouncer:
    """A lexicon, triphone tree and transition model of Kaldi's."""
    lang = corpus / "data" / "lang"
    return Pronouncer(
        read_lang(lang),
        read_symbols(lang / "phones.txt"),
        read_transition_model(corpus / "exp" / "tri3_ali" / "final.mdl"),
        read_tree(corpus / "exp" / "tri3_ali" / "tree"),
    )


def sayings(words: Sequence[str], speech: Pronouncer) -> Iterator[tuple[float, list[int]]]:
    """Every sequence of phones of `words`, pauses included, and its cost."""
    share = speech.lang.silence_probability
    choices: list = [[(-math.log(1 - share), [])]]
    if share:
        choices[0].append((-math.log(share), [speech.silence]))
    for word in words:
        ways = [e for e in speech.lang.lexicon if e.word == word]
        choices.append(
            [(-math.log(e.probability), [speech.phones[p] for p in e.phones]) for e in ways]
        )
        choices.append(choices[0])
    for chosen in itertools.product(*choices):
        yield sum(cost for cost, _ in chosen), [p for _, phones in chosen for p in phones]


def cheapest(phones: Sequence[int], costs: np.ndarray, speech: Pronouncer) -> float:
    """The cost of the best path through one sequence of phones: dense Viterbi in float64."""
    model, tree = speech.model, speech.tree
    first = {tuple(row): i for i, row in enumerate(model.tuples.tolist())}
    begins = np.cumsum([0, *(len(model.topology[p][s].transitions) for p, s, *_ in model.tuples)])
    padded = [0] * tree.center + list(phones) + [0] * (tree.width - 1 - tree.center)
    starts = np.cumsum([0, *(len(model.topology[p]) - 1 for p in phones)])
    matrix = np.full((starts[-1], starts[-1] + 1), np.inf)
    pdfs = np.empty(starts[-1], int)
    for place, phone in enumerate(phones):
        window = padded[place : place + tree.width]
        for number, state in enumerate(model.topology[phone][:-1]):
            pdf = tree.pdf(window, state.forward_class)
            row, tid = starts[place] + number, 1 + begins[first[phone, number, pdf, pdf]]
            pdfs[row] = pdf
            targets = [target for target, _ in state.transitions]
            log_probs = model.log_prob[tid : tid + len(targets)].astype(float)
            stay = math.exp(log_probs[targets.index(number)]) if number in targets else 0.0
            leave = math.log(1 - stay)
            for target, log_prob in zip(targets, log_probs, strict=True):
                loop = target == number
                cost = -0.1 * log_prob if loop else -(log_prob - leave) - 0.1 * leave
                matrix[row, starts[place] + target] = cost
    best = np.full(starts[-1] + 1, np.inf)
    best[0] = 0.0
    for frame in costs:
        best = (best[:-1, None] + frame[pdfs][:, None] + matrix).min(axis=0)
    return float(best[-1])


def phones_of(tids: np.ndarray, speech: Pronouncer) -> list[int]:
    """The phones that an alignment passes through."""
    begins = (speech.model.hmm_state[tids] == 0) & ~speech.model.self_loop[tids]
    return speech.model.phone[tids[begins]].tolist()


def path_cost(tids: np.ndarray, costs: np.ndarray, speech: Pronouncer) -> float:
    """The cost of an alignment at the usual scales, without that of words and pauses."""
    model, transitions = speech.model, index_transitions(speech.model)
    leave = transitions.leave[transitions.state[tids]]
    log_prob = model.log_prob[tids].astype(float)
    passing = np.where(model.self_loop[tids], 0.1 * log_prob, log_prob - 0.9 * leave)
    return float(costs[np.arange(len(tids)), model.pdf[tids]].sum() - passing.sum())


def assert_exact(words: Sequence[str], loglikes: np.ndarray, speech: Pronouncer) -> None:
    """The alignment costs as much as the best of all paths, and is a path of that cost."""
    options = AlignOptions(acoustic_scale=0.3, beam=1000.0)
    costs = -0.3 * loglikes.astype(float)
    ways = [(cost, phones) for cost, phones in sayings(words, speech) if phones]
    expected = min(
        (cost + cheapest(phones, costs, speech) for cost, phones in ways), default=np.inf
    )
    if math.isinf(expected):
        with pytest.raises(InputError, match=r"u: (no path of its|the transcript is empty)"):
            align_utterance("u", words, loglikes, speech, options, ENGINE)
        return
    found = align_utterance("u", words, loglikes, speech, options, ENGINE)
    tids = found.transition_ids
    said = min(cost for cost, phones in ways if phones == phones_of(tids, speech))
    assert found.cost == pytest.approx(expected, rel=1e-5, abs=1e-3)
    assert said + path_cost(tids, costs, speech) == pytest.approx(expected, rel=1e-5, abs=1e-3)
    assert len(tids) == len(loglikes)
    assert not found.retried
    begins = np.flatnonzero((speech.model.hmm_state[tids] == 0) & ~speech.model.self_loop[tids])
    edges = [*begins.tolist(), len(tids)]
    spans = word_spans(words, tids, speech)
    for word, (start, end) in zip(words, spans, strict=True):
        said = phones_of(tids[start:end], speech)
        assert start in edges
        assert end in edges
        ways = [entry.phones for entry in speech.lang.lexicon if entry.word == word]
        assert said in [[speech.phones[phone] for phone in way] for way in ways]
    gaps = itertools.pairwise([0, *(frame for span in spans for frame in span), len(tids)])
    assert all(phones_of(tids[a:b], speech) in ([], [speech.silence]) for a, b in [*gaps][::2])


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["ab", "b", "aa"]), max_size=3),
    st.integers(1, 25),
    st.sampled_from([0.0, 0.3, 0.5]),
    st.integers(0, 10**6),
)
def test_the_best_of_all_paths_is_found(
    words: list[str], frames: int, silence: float, seed: int
) -> None:
    loglikes = np.random.default_rng(seed).normal(0, 5, (frames, 6)).astype(np.float32)
    assert_exact(words, loglikes, toy(silence))


@pytest.mark.parametrize("corpus", ["an4", "timit_sample"])
def test_it_is_found_with_kaldis_tree_and_topologies(
    corpus: str, kaldi_corpus: Callable[[str], Path]
) -> None:
    """Triphones, silence of five states that form cycles, words of several pronunciations."""
    speech, rng = real(kaldi_corpus(corpus)), np.random.default_rng(3)
    times = Counter(entry.word for entry in speech.lang.lexicon)
    ambiguous = [word for word in times if times[word] > 1] or list(times)
    for _ in range(3):
        words = rng.choice(ambiguous, 2).tolist()
        loglikes = rng.normal(0, 9, (int(rng.integers(30, 60)), speech.model.num_pdfs))
        assert_exact(words, loglikes.astype(np.float32), speech)


@pytest.mark.parametrize("corpus", ["an4", "timit_sample"])
def test_no_alignment_of_kaldi_is_better(corpus: str, kaldi_corpus: Callable[[str], Path]) -> None:
    """Kaldi aligned with features of other speaker transforms: its paths agree, and cost more."""
    root = kaldi_corpus(corpus)
    golden, speech = golden_case(kaldi_corpus, corpus, "gmm"), real(root)
    theirs = dict(
        item
        for path in (root / "exp" / "tri3_ali_dev").glob("ali.*.gz")
        for item in iter_int_vectors(path)
    )
    text = read_text(root / "data" / "dev" / "text")
    same = total = 0
    for utt, loglikes in itertools.islice(golden.matrices(), 6):
        costs = -0.1 * loglikes.astype(float)
        ours = align_utterance(utt, text[utt], loglikes, speech, AlignOptions(), ENGINE)
        tids = ours.transition_ids
        difference = path_cost(tids, costs, speech) - path_cost(theirs[utt], costs, speech)
        assert difference < 1e-3  # pauses taken and left out cost the same
        same += int((speech.model.pdf[tids] == speech.model.pdf[theirs[utt]]).sum())
        total += len(tids)
    assert same > 0.88 * total


@pytest.mark.parametrize("corpus", ["an4", "timit_sample"])
def test_kaldis_words_cost_no_more_than_its_decoder_found(
    corpus: str, kaldi_corpus: Callable[[str], Path]
) -> None:
    """The best path of words in the decoding graph is the best path of these words alone."""
    root = kaldi_corpus(corpus)
    golden, speech = golden_case(kaldi_corpus, corpus, "gmm"), real(root)
    grammar = read_arpa(root / "data" / "lm.arpa")
    words, graph, acoustic = (
        golden.words("a.words"),
        golden.numbers("a.graph_cost"),
        golden.numbers("a.acoustic_cost"),
    )
    options = AlignOptions(acoustic_scale=golden.scale, beam=1000.0)
    for utt, loglikes in itertools.islice(golden.matrices(), 6):
        ours = align_utterance(utt, words[utt], loglikes, speech, options, ENGINE)
        theirs = graph[utt] + golden.scale * acoustic[utt] - sentence_cost(grammar, words[utt])
        assert ours.cost == pytest.approx(theirs, abs=0.05)


def sentence_cost(grammar: NgramModel, words: Sequence[str]) -> float:
    """The cost of a sentence in the language model."""
    sentence = (START, *words, END)
    return -sum(grammar.score(sentence[i], sentence[:i]) for i in range(1, len(sentence)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["ab", "b", "aa"]), max_size=4), st.integers(1, 60))
def test_flat_alignments_share_the_frames_evenly(words: list[str], frames: int) -> None:
    """Each word by its most probable way; pauses at both ends where there is room."""
    speech = toy()
    spoken = [{"ab": [2, 3], "b": [3], "aa": [2, 2]}[word] for word in words]
    phones = [phone for said in spoken for phone in said]
    with_pauses = [1, *phones, 1]
    expected = with_pauses if 2 * len(with_pauses) <= frames else phones
    if not 0 < 2 * len(expected) <= frames:
        with pytest.raises(InputError, match=f"{frames} frames, but the transcript has"):
            align_equal(words, frames, speech)
        return
    tids = align_equal(words, frames, speech)
    assert len(tids) == frames
    assert phones_of(tids, speech) == expected
    entered = np.flatnonzero(~speech.model.self_loop[tids])
    lengths = np.diff(np.append(entered, frames))
    assert len(lengths) == 2 * len(expected)
    assert lengths.max() - lengths.min() <= 1
    assert math.isfinite(path_cost(tids, np.zeros((frames, 6)), speech))


@pytest.mark.parametrize("corpus", ["an4", "timit_sample"])
def test_flat_alignments_are_paths_of_kaldis_topologies(
    corpus: str, kaldi_corpus: Callable[[str], Path]
) -> None:
    root = kaldi_corpus(corpus)
    speech, text = real(root), read_text(root / "data" / "dev" / "text")
    for words in list(text.values())[:5]:
        tids = align_equal(words, 700, speech)
        phones = phones_of(tids, speech)
        assert all(phone in speech.model.topology for phone in phones)
        window = [0] * speech.tree.center + phones + [0] * speech.tree.width
        place = -1
        for tid in tids[~speech.model.self_loop[tids]].tolist():
            state = int(speech.model.hmm_state[tid])
            place += state == 0
            around = window[place : place + speech.tree.width]
            pdf_class = speech.model.topology[phones[place]][state].forward_class
            assert speech.model.pdf[tid] == speech.tree.pdf(around, pdf_class)


def test_a_second_search_is_wider() -> None:
    """Noise that the narrow beam loses the end in; the wider one finds what the widest finds."""
    speech, words = toy(), ["ab", "b", "aa"] * 15
    loglikes = np.random.default_rng(1).normal(0, 30, (200, 6)).astype(np.float32)
    narrow = AlignOptions(acoustic_scale=1.0, beam=1.0, retry_beam=3000.0)
    found = align_utterance("u", words, loglikes, speech, narrow, ENGINE)
    wide = AlignOptions(acoustic_scale=1.0, beam=3000.0)
    assert found.retried
    assert found.cost == align_utterance("u", words, loglikes, speech, wide, ENGINE).cost
    narrower = AlignOptions(acoustic_scale=1.0, beam=0.5, retry_beam=1.0)
    with pytest.raises(InputError, match="u: no path of its 45 words through 200 frames within"):
        align_utterance("u", words, loglikes, speech, narrower, ENGINE)


@pytest.mark.parametrize("words", [["aa"], ["ab", "b"], ["b", "aa", "ab"] * 3])
def test_frames_that_are_too_few_are_told_from_a_beam_that_is_too_narrow(words: list[str]) -> None:
    """The search itself, which loses nothing here, says how many are enough."""
    speech, options = toy(), AlignOptions(acoustic_scale=1.0, beam=1e6)
    told: set[int] = set()
    for count in range(1, 60):
        loglikes = np.zeros((count, 6), np.float32)
        try:
            align_utterance("u", words, loglikes, speech, options, ENGINE)
        except InputError as error:
            (number,) = re.findall(r"as each takes at least (\d+);", str(error))
            told.add(int(number))
            assert count < int(number)
        else:
            assert told == {count}
            break
    else:
        pytest.fail("no number of frames was enough")


def test_words_of_a_graph_without_pronunciation_are_named(messages: Callable[[], str]) -> None:
    symbols = dict(enumerate(("<eps>", "ab", "zebra", "zoo", "#0", "<s>", "</s>")))
    timer = toy().time_words(symbols)
    assert [bool(timer.pronunciations[number]) for number in (1, 2, 3)] == [True, False, False]
    said = messages()
    assert "2 words of the graph have no pronunciation" in said
    assert "zebra, zoo\n" in said


def test_unknown_words_are_named_or_replaced() -> None:
    loglikes = np.zeros((9, 6), np.float32)
    with pytest.raises(InputError, match="u: the word zebra is not in the lexicon"):
        align_utterance("u", ["ab", "zebra"], loglikes, toy(), AlignOptions(), ENGINE)
    speech = toy(silence=0.0, unknown="b")
    found = align_utterance("u", ["zebra"], loglikes, speech, AlignOptions(), ENGINE)
    assert phones_of(found.transition_ids, speech) == [3]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"has no lexicon \(looked for lexiconp.txt, lexicon.txt, phones/align_lexicon"),
        ({"lexicon.txt": "a a\n", "oov.txt": "<UNK>\n"}, "lacks <UNK>, the word for words without"),
        ({"lexicon.txt": "a a\n", "oov.txt": "\xfc\n"}, "oov.txt, line 1: not UTF-8 text"),
        (
            {"lexicon.txt": "a a\n", "silence_phones.txt": "s\n\xfc\n"},
            "silence_phones.txt, line 2: not UTF-8 text",
        ),
    ],
)
def test_a_folder_that_says_nothing_is_refused(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=message):
        read_lang(tmp_path)


def test_kinds_of_folders_agree(kaldi_corpus: Callable[[str], Path]) -> None:
    """Kaldi's dict, lang and graph folders of AN4 hold the same words and the same pauses."""
    root = kaldi_corpus("an4")
    kinds = [root / "data" / "dict", root / "data" / "lang", root / "exp" / "tri3" / "graph"]
    found = [read_lang(folder) for folder in kinds]
    for lang in found:
        assert set(lang.lexicon) == set(found[0].lexicon)
        assert (lang.silence, lang.silence_probability) == ("SIL", 0.5)
    assert [lang.unknown for lang in found] == [None, "<UNK>", None]
