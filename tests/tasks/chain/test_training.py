"""Lattice-free MMI as a criterion: batches in packed order, numerators of sets, runs, refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.data.corpus.index import Index
from bayes_asr.data.corpus.sets import open_sets
from bayes_asr.data.features.front_end import FEATURES
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.export import export_torch
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
from bayes_asr.evaluate.decoded.run import TimedSet
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.text import write_lines
from bayes_asr.kaldi_io.tree import write_tree
from bayes_asr.nn.frames import PackedFrames
from bayes_asr.tasks.chain.leaky_hmm import LeakyHmm
from bayes_asr.tasks.chain.numerator import NumeratorBuilder, Tolerance
from bayes_asr.tasks.chain.objective import Regularization, compute_lfmmi, sum_allowed
from bayes_asr.tasks.chain.targets import add_numerators, open_supervision
from bayes_asr.tasks.chain.training import LatticeFreeCriterion
from bayes_asr.train.gradient_reach import measure_reach
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.chain_corpus import CHAIN, chain_config, say, write_chain, write_chain_corpus
from tests.support.chain_models import GRAPH, MODEL, SAID, TREE
from tests.support.places import CONF
from tests.support.small_corpus import SETS, settings
from tests.support.training_runs import config_of, history_of

OPTIONS = replace(load([]).train.chain, xent_regularize=0.3, l2_regularize=0.01)
LEAK = OPTIONS.leaky_hmm_coefficient


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a run of a few epochs, RUN."""
    made = write_chain_corpus(tmp_path_factory.mktemp("chain"))
    train(chain_config(made, "train.epochs=8"), made / "run")
    return made


def test_a_packed_batch_costs_what_its_utterances_cost() -> None:
    """The gradient too, of both heads; several processes divide by the frames of all."""
    maker = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance())
    made = [maker.build(phones, [6] * len(phones)) for phones in SAID[:4]]
    made.sort(key=len, reverse=True)
    layout = PackedFrames(tuple(map(len, made)))
    rng, P, hmm = np.random.default_rng(0), MODEL.num_pdfs, LeakyHmm(GRAPH, LEAK)
    packed = {
        name: torch.from_numpy(rng.normal(0, 1, (layout.count, P))).float().requires_grad_()
        for name in ("pdfs", "xent")
    }
    criterion = LatticeFreeCriterion({"pdfs": 1.0, "xent": 0.3}, OPTIONS, GRAPH)
    cost = criterion(packed, {"pdfs": made}, 50.0)
    cost.objective.backward()
    objective = errors = 0.0
    for number, one in enumerate(made):
        own = {
            name: x.detach()[layout.sequence == number].requires_grad_()
            for name, x in packed.items()
        }
        found = compute_lfmmi(own["pdfs"], [one], hmm, Regularization(0.3, 0.01), own["xent"])
        (found.loss / 50).backward()
        objective, errors = objective + found.loss.item() / 50, errors + found.errors
        for name, x in packed.items():
            assert x.grad is not None
            torch.testing.assert_close(x.grad[layout.sequence == number], own[name].grad)
    assert cost.objective.item() == pytest.approx(objective, rel=1e-5)
    assert cost.errors.item() == errors


def test_errors_are_frames_whose_largest_output_was_not_said() -> None:
    maker = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance(0, 2))
    one = maker.build([1, 2, 3], [6, 6, 6])
    best = torch.zeros(len(one), MODEL.num_pdfs)
    possible = {(int(t), int(p) - 1) for t, p in zip(one.frame, one.tid, strict=True)}
    chosen = [2, 0, 3, 4, 5, 2]
    best[torch.arange(len(one)), chosen] = 9.0
    cost = LatticeFreeCriterion({"pdfs": 1.0}, OPTIONS, GRAPH)({"pdfs": best}, {"pdfs": [one]}, 1.0)
    assert cost.errors == sum(pair not in possible for pair in enumerate(chosen))


def test_the_pdfs_allowed_in_each_frame_sum_as_all_their_sequences() -> None:
    """By enumeration of the sequences and products of dense matrices, leaks written out."""
    rng = np.random.default_rng(5)
    frames, P, S = 3, MODEL.num_pdfs, GRAPH.num_states
    scores, allowed = rng.normal(0, 1, (frames, P)), rng.random((frames, P)) < 0.5
    allowed[:, 0] = True
    steps = np.zeros((P, S, S))
    np.add.at(steps, (GRAPH.pdf, GRAPH.source, GRAPH.target), GRAPH.prob)
    leak = np.eye(S) + LEAK * np.outer(np.ones(S), GRAPH.initial)
    total, share = 0.0, np.zeros((frames, P))
    for pdfs in product(*(np.flatnonzero(row) for row in allowed)):
        here = GRAPH.initial @ leak
        for t, pdf in enumerate(pdfs):
            here = np.exp(scores[t, pdf]) * here @ steps[pdf] @ leak
        total += here.sum()
        share[np.arange(frames), pdfs] += here.sum()
    value, found = sum_allowed(allowed, scores, LeakyHmm(GRAPH, LEAK))
    assert value == pytest.approx(np.log(total), abs=1e-10)
    np.testing.assert_allclose(found, share / total, atol=1e-10)


def test_the_loss_falls_and_the_second_head_is_trained(root: Path) -> None:
    history = history_of(root / "run")
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]
    assert 0 <= history[-1]["dev_loss"] < history[0]["dev_loss"]
    assert history[-1]["dev_error"] < 0.2
    network = read_network(root / "run")
    assert network.model.outputs == ("pdfs", "xent")
    assert network.model.architecture["output_stride"] == 3
    assert not network.log_priors.any()


def test_dev_is_measured_though_its_phones_were_never_said(tmp_path: Path) -> None:
    """The language model of two utterances has no path of others, but all of their phones."""
    corpus = write_chain_corpus(tmp_path)
    write_chain(corpus / "exp/chain", [*say("train").values()][:2])
    config = chain_config(corpus)
    speech = open_supervision(config, open_sets(config)[1])
    assert {utt for utt, _ in speech.iter_numerators(say("dev"))} < {*say("dev")}
    dev = add_numerators(config, "dev", open_sets(config)[1], Index(tmp_path / "index"))
    assert {*dev.lengths} == {*say("dev")}
    for utt, phones in say("dev").items():
        allowed = dev.targets["pdfs"].labels(utt)
        assert len(allowed) == -(-dev.lengths[utt] // 3)
        own = np.flatnonzero(np.isin(speech.chain.model.phone[1:], phones)) + 1
        assert set(np.flatnonzero(allowed.any(0))) == {*speech.chain.model.pdf[own].tolist()}


def test_phones_that_the_graph_lacks_leave_a_frame_without_any(
    tmp_path: Path, messages: Callable[[], str]
) -> None:
    corpus = write_chain_corpus(tmp_path)
    write_chain(corpus / "exp/chain", [[2, 3, 2], [3, 3]])
    config = chain_config(corpus, "train.chain.left_tolerance=1", "train.chain.right_tolerance=1")
    with pytest.raises(InputError, match="dev: no numerator by"):
        add_numerators(config, "dev", open_sets(config)[1], Index(tmp_path / "index"))
    assert "no numerator: the graph has none of its phones in output frame" in messages()


def test_log_likelihoods_come_at_a_third_of_the_rate(root: Path, tmp_path: Path) -> None:
    """The same alone, in any company and through Python; a path gains nothing by the softmax."""
    assert main(["forward", str(root / "run"), "--on=test", f"--out={tmp_path}"]) == 0
    written = dict(kaldiio.load_scp(str(tmp_path / "loglikes.scp")))
    features = dict(kaldiio.load_scp(str(root / "data/test/feats.scp")))
    assert len(written) == SETS["test"]
    network = bayes_asr.load(root / "run")
    full = read_network(root / "run").model.double().eval()
    full.output_stride = 1
    for utt, x in features.items():
        assert len(written[utt]) == -(-len(x) // 3)
        np.testing.assert_allclose(network(x.copy()), written[utt], atol=1e-5)
        inputs = torch.from_numpy(network.front_ends[FEATURES].normalise(x.astype(np.float64)))
        with torch.no_grad():
            logits = full({FEATURES: inputs}, PackedFrames((len(x),)))["pdfs"][::3].numpy()
        apart = logits - written[utt]
        np.testing.assert_allclose(apart, apart[:, :1] + 0 * apart, atol=1e-5)


@pytest.mark.slow
def test_what_was_said_is_decoded(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a graph of the same tree, whose words are phones, at acoustic scale 1."""
    chain, run = root / "exp/chain", tmp_path / "run"
    graph = ["graph", f"--lexicon={chain}/lexicon.txt", f"--text={root}/data/train/text"]
    graph += [f"--model={chain}/final.mdl", f"--tree={chain}/tree", "--silence-prob=0"]
    assert main([*graph, "--self-loop-scale=1", f"--out={tmp_path}/graph"]) == 0
    begin = json.dumps([{"run": str(root / "run"), "normalisation": "run"}])
    more = ("train.epochs=4", f"train.init_from={begin}", f"data.graph=[{tmp_path}/graph]")
    train(
        chain_config(root, *more, "decode.acoustic_scale=1", "decode.lm_weights=[0.3, 0.5, 1]"), run
    )
    for name in ("dev", "test"):
        assert main(["forward", str(run), f"--on={name}"]) == 0
        assert main(["decode", str(run), f"--on={name}"]) == 0
    capsys.readouterr()
    assert main(["score", str(run), "--json"]) == 0
    rates = {one["set"]: one["rate"] for one in json.loads(capsys.readouterr().out)}
    assert max(rates.values()) < 45
    data = root / "data/dev"
    write_lines([";; made up"], data / "stm")
    scored = chain_config(root, f"data.graph=[{tmp_path}/graph]", "score.glm=english")
    timed = TimedSet(run, "dev", scored).ctms
    lines = [line.split() for line in timed[0.5, 0.0].read_text().splitlines()]
    seconds = 0.01 * len(kaldiio.load_scp(str(data / "feats.scp"))[lines[-1][0]])
    assert seconds - 0.15 < float(lines[-1][2]) + float(lines[-1][3]) < seconds + 0.03


def test_what_needs_outputs_of_every_frame_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, trained = str(root / "run"), read_network(root / "run")
    said = "has outputs of one of 3 frames"
    with pytest.raises(InputError, match=f"{said}, which are not computed in chunks"):
        bayes_asr.load(run).stream()
    with pytest.raises(InputError, match=f"{said}, which no exporter"):
        export_torch(LogLikelihoods(trained), tmp_path / "network.pt2")
    _, dev = open_sets(chain_config(root))
    with pytest.raises(InputError, match=f"{said}, and was trained"):
        measure_reach(trained, dev, lags=2, utterances=1)
    assert main(["adapt", run, "--ali=dev=nowhere", f"--out={tmp_path / 'adapted'}"]) == 1
    assert f"{said}, and no labels" in capsys.readouterr().err
    assert main(["denlats", run, "--graph=nowhere", f"--out={tmp_path / 'lattices'}"]) == 1
    assert f"{said}, from which no criterion on lattices goes on" in capsys.readouterr().err


def test_its_alignments_are_of_every_third_frame_and_train_nothing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = root / "run", tmp_path / "ali"
    words = ["align", str(run), "--on=train", f"--lang={root / 'exp/chain'}", f"--out={out}"]
    assert main(words) == 0
    warning = f"{out}: alignments are of one of 3 frames, as the outputs of {run}"
    assert warning in capsys.readouterr().err
    features = dict(kaldiio.load_scp(str(root / "data/train/feats.scp")))
    assert all(n == -(-len(features[utt]) // 3) for utt, n in Alignments(out).lengths.items())
    data = [f"data.{name}.alignments=[{out}]" for name in ("train", "dev")]
    data.append(f"data.dev.features=[{root / 'data/train'}]")
    with pytest.raises(InputError, match=r"frames of .* labels in .*by a run of LF-MMI"):
        train(config_of(root, *data), tmp_path / "run")


def test_each_utterance_is_shifted_by_another_frame_in_each_of_three_epochs(root: Path) -> None:
    config = chain_config(root)
    data, _ = open_sets(config)
    ends = {FEATURES: read_network(root / "run").front_ends[FEATURES]}
    (utt,) = list(data.lengths)[:1]
    plain, *shifted = (
        Loader(data, ends, ["pdfs"], seed=1, epoch=epoch, shifts=shifts)([utt]).streams[FEATURES]
        for epoch, shifts in ((1, 1), (1, 3), (2, 3), (3, 3), (4, 3))
    )
    wanted = (plain, torch.cat([plain[:1], plain[:-1]]), torch.cat([plain[1:], plain[-1:]]))
    found = [next(n for n, x in enumerate(wanted) if torch.equal(x, one)) for one in shifted]
    assert sorted(found[:3]) == [0, 1, 2]
    assert found[3] == found[0]


def test_layers_may_compute_a_third_of_the_frames_themselves(root: Path, tmp_path: Path) -> None:
    stack = [
        {"name": "third", "kind": "conv1d", "channels": 6, "stride": 3},
        {"name": "rnn", "kind": "recurrent", "units": 4},
    ]
    config = chain_config(root, f"model.stack={json.dumps(stack)}", "train.epochs=1")
    train(config, tmp_path / "run")
    assert np.isfinite(history_of(tmp_path / "run")[0]["dev_loss"])
    stack[0]["stride"] = 2
    with pytest.raises(InputError, match="head pdfs has outputs of one of 3 frames, but layer rnn"):
        train(chain_config(root, f"model.stack={json.dumps(stack)}"), tmp_path / "refused")


def test_a_batch_that_is_not_finite_costs_nan() -> None:
    one = NumeratorBuilder(MODEL, TREE, GRAPH, Tolerance()).build([1, 2, 3], [6, 6, 6])
    outputs = torch.full((len(one), MODEL.num_pdfs), torch.nan)
    for numerator in (one, np.ones(outputs.shape, bool)):
        cost = LatticeFreeCriterion({"pdfs": 1.0}, OPTIONS, GRAPH)(
            {"pdfs": outputs}, {"pdfs": [numerator]}, 6.0
        )
        assert torch.isnan(cost.objective)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["data.chain=[]"], "lfmmi, which wants data.chain; make its tree and graph by"),
        (["train.monophone_weight=1"], "train.monophone_weight is 1.0, but lfmmi has outputs of"),
        (["train.target_weights={a: 1}"], "train.target_weights is"),
        (["train.tempo=0.1"], "train.tempo is 0.1, but the numerators of lfmmi are of utterances"),
        (["train.max_frames=9"], "train.max_frames is 9, but the numerators of lfmmi"),
        (["train.chain.left_tolerance=0", "train.chain.right_tolerance=1"], "give 2 together"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        config_of(Path("nowhere"), *CHAIN, *given)
    assert said in str(caught.value)


def drop_graph(chain: Path) -> None:
    (chain / "den.fst").unlink()


def change_model(chain: Path) -> None:
    write_transition_model(build_monophone_model((2, 3), 1), chain / "final.mdl")


def change_tree(chain: Path) -> None:
    change_model(chain)
    write_tree(build_monophone_tree({2: [0], 3: [1]}), chain / "tree")


def change_graph(chain: Path) -> None:
    path = chain / "den.fst"
    path.write_bytes(path.read_bytes()[:100])


def thin_out(chain: Path) -> None:
    (chain / "frame_subsampling_factor").write_text("1\n")


def swap_phones(chain: Path) -> None:
    table = (chain / "phones.txt").read_text()
    assert "a 2\nb 3\n" in table
    (chain.parent / "ali/phones.txt").write_text(table.replace("a 2\nb 3\n", "b 2\na 3\n"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (drop_graph, "den.fst: not there; make it by bayes-asr gmm chain-tree"),
        (change_model, "tree: has 6 pdfs, but "),
        (change_tree, "den.fst: the denominator graph emits pdf 5, but the model has 2"),
        (change_graph, "den.fst: "),
        (thin_out, "the tree is of one of 1 frames, but train.chain.frame_subsampling_factor is 3"),
        (swap_phones, "exp/chain/phones.txt: the id of a is 2, but 3 in "),
        (swap_phones, "exp/ali/phones.txt; make the tree of the same lang folder"),
    ],
)
def test_folders_that_do_not_fit_are_refused(
    damage: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    corpus = write_chain_corpus(tmp_path)
    damage(corpus / "exp/chain")
    with pytest.raises(InputError) as caught:
        train(chain_config(corpus), tmp_path / "run")
    assert said in str(caught.value)


def test_utterances_without_numerator_are_named(
    tmp_path: Path, messages: Callable[[], str]
) -> None:
    """The language model is of the others, so one has no path."""
    corpus = write_chain_corpus(tmp_path)
    kept = [phones for utt, phones in say("train").items() if utt != "train0-0"]
    write_chain(corpus / "exp/chain", kept)
    with pytest.raises(InputError, match=r"train: no numerator by .* for 1 of 12 utt.*: train0-0;"):
        train(chain_config(corpus), tmp_path / "run")
    assert "train0-0: no numerator: the denominator graph has no path" in messages()
    write_chain(corpus / "exp/chain", [[3, 3, 3]])
    with pytest.raises(InputError, match=r"train: no numerator by .* for any utterance; make tree"):
        train(chain_config(corpus, "data.max_skipped=1"), tmp_path / "none")


def test_a_graph_that_has_changed_is_refused(tmp_path: Path) -> None:
    corpus = write_chain_corpus(tmp_path)
    train(chain_config(corpus, "train.epochs=1"), tmp_path / "run")
    path = corpus / "exp/chain/tree"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(InputError, match=r"exp/chain: has changed since this run was started"):
        train(chain_config(corpus, "train.epochs=2"), tmp_path / "run")


def test_the_doctor_looks_at_its_data(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = settings(root, *CHAIN, "score.metric=wer")
    main(["doctor", str(CONF / "base.yaml"), *words, f"--out={root}/new"])
    assert "6 pdfs, 6 xent" in capsys.readouterr().out


def test_a_run_of_cross_entropy_lends_its_layers(root: Path, tmp_path: Path) -> None:
    train(config_of(root, "train.epochs=1"), tmp_path / "ce")
    begin = json.dumps([{"run": str(tmp_path / "ce"), "normalisation": "run"}])
    config = chain_config(root, f"train.init_from={begin}", "train.epochs=1")
    train(config, tmp_path / "lfmmi")
    before: Any = read_network(tmp_path / "ce").front_ends[FEATURES].normalisation
    after: Any = read_network(tmp_path / "lfmmi").front_ends[FEATURES].normalisation
    assert np.array_equal(before.mean, after.mean)
