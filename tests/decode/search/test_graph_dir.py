"""Graphs that were made with another model than the one given."""

import shutil
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.decode.search.graph_dir import load_decoding_graph
from bayes_asr.kaldi_io.mdl import read_transition_model
from tests.support.golden_data import find_lang, lay_out
from tests.support.tiny_task import run_verb


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models of Kaldi's, each of 144 pdfs, and a graph of each."""
    root, lang = tmp_path_factory.mktemp("graphs"), find_lang()
    for name in ("mono", "tri1", "tri2"):
        model = lay_out(f"{name}_ali", root) / "final.mdl"
        assert read_transition_model(model).num_pdfs == 144
        lm = lang.parent / "lm.arpa"
        run_verb("--lang", lang, "--lm", lm, "--model", model, "--out", root / name)
    return root


@pytest.mark.parametrize("name", ["mono", "tri1", "tri2"])
def test_a_graph_of_its_model_alone_is_loaded(name: str, folder: Path) -> None:
    for other in ("mono", "tri1", "tri2"):
        model = folder / f"{other}_ali" / "final.mdl"
        if other == name:
            assert load_decoding_graph(folder / name, model).num_pdfs == 144
            continue
        with pytest.raises(InputError, match=f"{name}/HCLG.fst: "):
            load_decoding_graph(folder / name, model)


def test_a_graph_of_other_phone_numbers_is_refused(folder: Path, tmp_path: Path) -> None:
    graph, beside = folder / "mono", tmp_path / "phones.txt"
    model = Path(shutil.copy(folder / "mono_ali" / "final.mdl", tmp_path))
    table = (graph / "phones.txt").read_text()
    beside.write_text(table)
    load_decoding_graph(graph, model)
    beside.write_text(table.replace(" 2\n", " ?\n").replace(" 3\n", " 2\n").replace("?", "3"))
    with pytest.raises(InputError, match=r"mono/phones\.txt: the id of"):
        load_decoding_graph(graph, model)
