"""Kaldi's own programs on the same features and alignments, in contexts and roots of all kinds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.questions import cluster_phones, compile_questions, read_phone_sets
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.roots import read_roots
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.tree_statistics import Context, accumulate
from bayes_asr.kaldi_io.ark import iter_int_vectors, write_matrices
from bayes_asr.kaldi_io.gmm import read_gmm
from bayes_asr.kaldi_io.qst import write_questions
from bayes_asr.kaldi_io.tree import write_tree
from tests.support.kaldi_programs import NEEDS_KALDI, run_program
from tests.support.mixtures import golden_gmms

pytestmark = NEEDS_KALDI
MIXED = "not-shared not-split 1\nshared split 2 3 4 5\nnot-shared split 6 7\nshared not-split 8 9\n"
ROOTS = {
    "each": "".join(f"shared split {phone}\n" for phone in range(1, 49)),
    "mixed": MIXED + f"shared split {' '.join(map(str, range(10, 49)))}\n",
    "pdf-class": "".join(f"not-shared split {phone}\n" for phone in range(1, 49)),
}


@pytest.mark.parametrize(
    ("context", "roots", "options"),
    [
        (Context(3, 1, frozenset({1})), "each", {"leaves": 200}),
        (Context(5, 2, frozenset({1})), "each", {"leaves": 200}),
        (Context(2, 1, frozenset({1})), "pdf-class", {"leaves": 250, "threshold": 10.0}),
        (Context(3, 1), "mixed", {"leaves": 123, "cluster_threshold": 500.0}),
        (Context(2, 0), "mixed", {"leaves": 0, "cluster_threshold": 0.0, "rounded": False}),
    ],
)
def test_questions_trees_and_first_models_are_kaldis(
    kaldi_corpus: Callable[[str], Path],
    context: Context,
    roots: str,
    options: dict[str, float],
    tmp_path: Path,
) -> None:
    golden = golden_gmms()
    lang = kaldi_corpus("timit_sample") / "data" / "lang"
    old, _ = golden.model("mono/final.mdl")
    (tmp_path / "roots").write_text(ROOTS[roots])
    features, accs, tree_file = tmp_path / "feats", tmp_path / "accs", tmp_path / "tree"
    write_matrices(golden.features.items(), features)
    ali = f"ark:gunzip -c {golden.root}/mono_ali/ali.1.gz |"
    sizes = [f"--context-width={context.width}", f"--central-position={context.center}"]
    alone = [f"--ci-phones={':'.join(map(str, context.independent))}"] * bool(context.independent)
    mdl = golden.root / "mono" / "final.mdl"
    run_program("acc-tree-stats", *sizes, *alone, mdl, f"ark:{features}", ali, accs)
    run_program(
        "cluster-phones", *sizes, accs, lang / "phones" / "sets.int", tmp_path / "questions"
    )
    run_program(
        "compile-questions", *sizes, lang / "topo", tmp_path / "questions", tmp_path / "qst"
    )
    names = {"leaves": "max-leaves", "threshold": "thresh", "cluster_threshold": "cluster-thresh"}
    given = [f"--{names[key]}={value}" for key, value in options.items() if key in names]
    given.append(f"--round-num-leaves={str(options.get('rounded', True)).lower()}")
    inputs = [accs, tmp_path / "roots", tmp_path / "qst", lang / "topo"]
    run_program("build-tree", *sizes, *given, *inputs, tree_file)
    run_program("gmm-init-model", tree_file, accs, lang / "topo", tmp_path / "1.mdl")
    run_program(
        "convert-ali", mdl, tmp_path / "1.mdl", tree_file, ali, f"ark:{tmp_path / 'converted'}"
    )

    alignments = golden.alignments("mono_ali")
    aligned = [(u, alignments[u], x) for u, x in golden.features.items() if u in alignments]
    statistics = accumulate(aligned, old, context)
    sets = cluster_phones(statistics, read_phone_sets(lang / "phones" / "sets.int"), Random())
    assert sets == read_phone_sets(tmp_path / "questions")
    questions = compile_questions(sets, old.topology, context.width)
    write_questions(questions, tmp_path / "ours.qst")
    assert (tmp_path / "ours.qst").read_bytes() == (tmp_path / "qst").read_bytes()
    tree = build_tree(
        statistics,
        questions,
        read_roots(tmp_path / "roots"),
        old.topology,
        TreeOptions(**options),  # type: ignore[arg-type]
    )
    write_tree(tree, tmp_path / "ours.tree")
    assert (tmp_path / "ours.tree").read_bytes() == tree_file.read_bytes()
    model, theirs = read_gmm(tmp_path / "1.mdl")
    mixtures, _ = init_mixtures(tree, statistics)
    np.testing.assert_array_equal(mixtures.inverse_variances, theirs.inverse_variances)
    np.testing.assert_array_equal(mixtures.means_inverse_variances, theirs.means_inverse_variances)
    transitions = derive_transitions(tree, old.topology)
    np.testing.assert_array_equal(transitions.tuples, model.tuples)
    np.testing.assert_array_equal(transitions.log_prob, model.log_prob)
    converter = Converter(old, transitions, tree)
    for utt, converted in iter_int_vectors(tmp_path / "converted"):
        np.testing.assert_array_equal(converter.convert_alignment(utt, alignments[utt]), converted)
