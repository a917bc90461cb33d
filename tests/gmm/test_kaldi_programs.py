"""Kaldi's own programs read our models, trees, graphs and lang folders, and we read theirs."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.graph.build import build_lang_graph, write_lang_graph
from bayes_asr.decode.graph.lang_dir import LangOptions, write_lang
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.gmm.alignment import Aligner, align_all, align_equal_compiled, boost_silence
from bayes_asr.gmm.decoding import FeatureTable, decode_data, make_job
from bayes_asr.gmm.features import Pipeline, SpeakerFeatures, write_pipeline
from bayes_asr.gmm.graphs import GraphCompiler, read_compiler
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices, read_matrix, write_matrices
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.data_dir import read_data_dir
from bayes_asr.kaldi_io.fst import iter_fsts, write_fsts
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.text import read_text, write_mapping, write_speakers
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree, write_tree
from tests.support.golden_data import SILENCE, write_golden_data
from tests.support.kaldi_programs import NEEDS_KALDI, run_kaldi
from tests.support.mixtures import GoldenGmms, golden_gmms

pytestmark = NEEDS_KALDI
STAGES = ("mono", "tri1", "tri2", "tri3")
UTTERANCES = 12  # of the training set, which are aligned
DECODED = 3  # of them, in a narrow beam: phones are decoded slowly
SEARCH = SearchOptions(
    acoustic_scale=0.083333, beam=9.0, max_active=1000, lattice_beam=4.0, allow_partial=True
)


@dataclass(frozen=True)
class Stage:
    """A step of Kaldi's training, and a folder of the same in files that we have written."""

    name: str
    golden: GoldenGmms
    data: Path
    ours: Path

    @property
    def kaldis(self) -> Path:
        """Kaldi's model and tree."""
        return self.golden.root / self.name

    @property
    def lang(self) -> Path:
        """Kaldi's lang folder."""
        return self.golden.root.parents[1] / "data" / "lang"

    @cached_property
    def model(self) -> tuple[TransitionModel, Mixtures]:
        """The model."""
        return self.golden.model(f"{self.name}/final.mdl")

    @cached_property
    def tree(self) -> Tree:
        """The tree."""
        return read_tree(self.kaldis / "tree")

    @cached_property
    def compiler(self) -> GraphCompiler:
        """What makes graphs of transcripts."""
        return read_compiler(self.lang, self.model[0], self.tree)

    @cached_property
    def pipeline(self) -> Pipeline:
        """What the model reads."""
        if self.name in ("mono", "tri1"):
            return Pipeline()
        matrix = read_matrix(f"{self.golden.root}/tri2/final.mat.txt", "the matrix")
        adapted = dict(iter_matrices(self.golden.root / "tri3" / "trans.txt.gz"))
        return Pipeline(
            "mean", 0, 3, 3, matrix, transforms=adapted if self.name == "tri3" else None
        )

    @cached_property
    def x(self) -> Mapping[str, np.ndarray]:
        """The features of some utterances; Kaldi finds them in x.ark."""
        features = SpeakerFeatures(read_data_dir(self.data), self.pipeline)
        found = {utt: features[utt] for utt in features.utterances[:: 80 // UTTERANCES]}
        write_matrices(found.items(), self.ours / "x.ark")
        return found

    def write_graphs(self) -> Path:
        """Compile what they say."""
        graphs = self.ours / "fsts.1.gz"
        write_fsts(((u, self.compiler.compile(u, words)) for u, words in self.text.items()), graphs)
        return graphs

    @cached_property
    def text(self) -> Mapping[str, list[str]]:
        """Their transcripts."""
        words = read_text(self.data / "text")
        return {utt: words[utt] for utt in self.x}

    def run(self, pipeline: str, **names: object) -> str:
        """Run programs of Kaldi in our folder."""
        return run_kaldi(self.ours, pipeline, kaldis=self.kaldis, lang=self.lang, **names)


@pytest.fixture(scope="module", params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Every step of the training."""
    golden, folder = golden_gmms(), tmp_path_factory.mktemp("ours")
    data = write_golden_data(golden, folder / "data")
    write_speakers(read_data_dir(data).utt2spk, data)
    made = Stage(request.param, golden, data, folder)
    write_gmm(*made.model, folder / "final.mdl")
    write_tree(made.tree, folder / "tree")
    write_pipeline(made.pipeline, folder)
    return made


@pytest.mark.parametrize(
    "program",
    [
        "gmm-info {folder}/final.mdl",
        "show-transitions {lang}/phones.txt {folder}/final.mdl",
        "tree-info {folder}/tree",
        "gmm-copy --binary=false {folder}/final.mdl -",
        "copy-tree --binary=false {folder}/tree -",
    ],
    ids=lambda command: command.split()[0],
)
def test_our_files_say_what_kaldis_say(program: str, stage: Stage) -> None:
    said = [stage.run(program, folder=folder) for folder in (stage.ours, stage.kaldis)]
    assert said[0] == said[1] != ""


def test_kaldi_copies_our_files_as_it_copies_its_own(stage: Stage) -> None:
    """It computes the constants of Gaussians anew, and rounds them by its own libraries."""
    for folder, name in ((stage.ours, "ours"), (stage.kaldis, "kaldis")):
        stage.run(
            "gmm-copy {folder}/final.mdl {name}.mdl && copy-tree {folder}/tree {name}.tree",
            folder=folder,
            name=name,
        )
    for suffix in ("mdl", "tree"):
        copies = [(stage.ours / f"{name}.{suffix}").read_bytes() for name in ("ours", "kaldis")]
        assert copies[0] == copies[1]
    assert copies[0] == (stage.ours / "tree").read_bytes()


def test_kaldis_models_in_text_are_read(stage: Stage) -> None:
    """Text has six digits, so that numbers differ in the last."""
    stage.run("gmm-copy --binary=false {kaldis}/final.mdl text.mdl")
    transitions, mixtures = read_gmm(stage.ours / "text.mdl")
    expected, of = stage.model
    np.testing.assert_array_equal(transitions.tuples, expected.tuples)
    np.testing.assert_allclose(transitions.log_prob, expected.log_prob, rtol=1e-5)
    np.testing.assert_array_equal(mixtures.offsets, of.offsets)
    for name in ("weights", "inverse_variances", "means_inverse_variances"):
        np.testing.assert_allclose(getattr(mixtures, name), getattr(of, name), rtol=1e-5)


ALIGN = (
    "gmm-align-compiled --transition-scale=1.0 --acoustic-scale=0.1 --self-loop-scale=0.1"
    " --beam=10 --retry-beam=40 {{model}} {graphs} ark:x.ark ark:kaldis.ali"
)


def align(stage: Stage, graphs: Path, mixtures: Mixtures | None = None) -> dict[str, list[int]]:
    """Our alignments in these graphs, of those that have one."""
    transitions, of = stage.model
    results = align_all(Aligner(transitions, mixtures or of), iter_fsts(graphs), stage.x)
    return {
        utt: found.transition_ids.tolist()
        for utt, found in results
        if not isinstance(found, InputError)
    }


def read_alignments(path: Path) -> dict[str, list[int]]:
    return {utt: tids.tolist() for utt, tids in iter_int_vectors(path)}


def test_kaldi_aligns_in_our_graphs_as_we_do(stage: Stage) -> None:
    graphs = stage.write_graphs()
    stage.run(ALIGN.format(graphs="'ark:gunzip -c fsts.1.gz |'"), model="final.mdl")
    kaldis = read_alignments(stage.ours / "kaldis.ali")
    assert len(kaldis) >= UTTERANCES - 1
    assert kaldis == align(stage, graphs)


def test_we_align_in_kaldis_graphs_as_kaldi_does(stage: Stage) -> None:
    """Silence is boosted on both sides."""
    (stage.ours / "ids").write_text(
        "".join(
            f"{utt} {' '.join(str(stage.compiler.words[word]) for word in words)}\n"
            for utt, words in stage.text.items()
        )
    )
    stage.run(
        "compile-train-graphs --read-disambig-syms={lang}/phones/disambig.int tree final.mdl"
        " {lang}/L.fst ark:ids ark:kaldis.fsts"
    )
    boosted = "gmm-boost-silence --boost=1.25 1 final.mdl boosted.mdl"
    stage.run(f"{boosted} && {ALIGN.format(graphs='ark:kaldis.fsts')}", model="boosted.mdl")
    transitions, mixtures = stage.model
    boost = boost_silence(mixtures, transitions, SILENCE, 1.25)
    ours = align(stage, stage.ours / "kaldis.fsts", boost)
    assert ours == read_alignments(stage.ours / "kaldis.ali")


def test_starts_of_equal_lengths_are_kaldis(stage: Stage) -> None:
    graphs = stage.write_graphs()
    stage.run("align-equal-compiled 'ark:gunzip -c fsts.1.gz |' ark:x.ark ark:equal.ali")
    kaldis = read_alignments(stage.ours / "equal.ali")
    assert kaldis.keys() == stage.x.keys()
    for utt, graph in iter_fsts(graphs):
        assert align_equal_compiled(utt, graph, len(stage.x[utt])).tolist() == kaldis[utt]


def test_kaldi_decodes_with_our_graph_and_model_as_we_do(stage: Stage) -> None:
    """Kaldi's own graph gives the same words, on both sides."""
    corpus, transitions = stage.lang.parents[1], stage.model[0]
    lang = stage.ours / "lang"
    write_lang(
        corpus / "data" / "dict",
        lang,
        LangOptions(oov="sil", position_dependent=False, silence_probability=0.0, silence_states=3),
    )
    graph = build_lang_graph(lang, read_arpa(corpus / "data" / "lm.arpa"), transitions, stage.tree)
    write_lang_graph(graph, lang, stage.ours / "graph")
    words = decode(stage, stage.ours / "graph")
    assert len(words) == DECODED
    shutil.copytree(stage.lang, stage.ours / "kaldis_lang", dirs_exist_ok=True)
    stage.run("mkgraph.sh kaldis_lang . kaldis_graph")
    assert decode(stage, stage.ours / "kaldis_graph") == words


def decode(stage: Stage, graph: Path) -> dict[str, list[str]]:
    """The words of Kaldi's decoder and of ours, which are the same."""
    folder = stage.ours / "decoding"
    folder.mkdir(exist_ok=True)
    some = dict(islice(stage.x.items(), DECODED))
    write_matrices(some.items(), folder / "feats.ark", folder / "feats.scp")
    write_mapping({utt: utt for utt in some}.items(), folder / "utt2spk")
    stage.run(
        f"gmm-latgen-faster --acoustic-scale={SEARCH.acoustic_scale} --beam={SEARCH.beam}"
        f" --lattice-beam={SEARCH.lattice_beam} --max-active={SEARCH.max_active}"
        " --allow-partial=true final.mdl {graph}/HCLG.fst ark:decoding/feats.ark ark:lattices"
        " ark,t:ids && int2sym.pl -f 2- {graph}/words.txt ids >kaldis.txt",
        graph=graph,
    )
    write_gmm(*stage.model, folder / "final.mdl")
    write_pipeline(Pipeline("none", 0), folder)
    decode_data(FeatureTable(folder), make_job(folder, graph, folder), folder / "out")
    ours = read_text(folder / "out" / "words.txt")
    assert ours == read_text(stage.ours / "kaldis.txt")
    return ours


@pytest.mark.parametrize("positions", [False, True])
def test_kaldi_finds_no_fault_with_our_lang_folder(
    positions: bool, golden_dict: Path, tmp_path: Path
) -> None:
    write_lang(golden_dict, tmp_path / "lang", LangOptions(oov="sil", position_dependent=positions))
    (tmp_path / "path.sh").touch()  # which the script reads
    assert "SUCCESS" in run_kaldi(tmp_path, "validate_lang.pl lang 2>&1")


@pytest.fixture(scope="module")
def golden_dict() -> Path:
    """The dict folder of the TIMIT sample."""
    return golden_gmms().root.parents[1] / "data" / "dict"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of experiments as Kaldi's scripts want it, with monophones that we have trained."""
    golden, folder = golden_gmms(), tmp_path_factory.mktemp("experiment")
    data = write_golden_data(golden, folder / "data")
    write_speakers(read_data_dir(data).utt2spk, data)
    shutil.copytree(golden.root.parents[1] / "data" / "lang", folder / "lang")
    (folder / "path.sh").touch()
    for name in ("steps", "utils"):
        (folder / name).symlink_to(Path(os.environ["KALDI_ROOT"]) / "egs" / "wsj" / "s5" / name)
    sizes = ["--gaussians", "160", "--passes", "3"]
    assert (
        main(["gmm", "mono", *(str(folder / name) for name in ("data", "lang", "mono")), *sizes])
        == 0
    )
    return folder


def test_kaldis_script_aligns_with_our_folder_as_we_do(trained: Path) -> None:
    run_kaldi(trained, "steps/align_si.sh --nj 1 --boost-silence 1.25 data lang mono kaldis")
    folders = [str(trained / name) for name in ("data", "lang", "mono", "ours")]
    assert main(["gmm", "align", *folders, "--boost-silence", "1.25", "--max-skipped", "0.5"]) == 0
    kaldis = read_alignments(trained / "kaldis" / "ali.1.gz")
    assert kaldis == read_alignments(trained / "ours" / "ali.1.gz")
    assert len(kaldis) > 40
