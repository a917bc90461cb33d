"""The keys in which systems differ."""

import re
import shutil
from pathlib import Path

from bayes_asr.config.merge import load
from bayes_asr.evaluate.report.configurations import tabulate_configurations
from bayes_asr.evaluate.report.runs import find_systems
from tests.support.report_runs import make_mixtures


def test_page_has_the_keys_in_which_configurations_differ(out: Path, tmp_path: Path) -> None:
    for name, changes in (("a", ["seed=3"]), ("b", ["seed=4", "model.unit=gru"])):
        run = shutil.copytree(out / "gru" / "seed1", tmp_path / name)
        load([], changes).save(run / "config.yaml")
    run = shutil.copytree(out / "gru" / "seed1", tmp_path / "c")
    (run / "config.yaml").write_text("model: {unit: [}")
    table, missing = tabulate_configurations(find_systems([tmp_path]))
    default = load([]).model.unit
    assert table.to_numpy().tolist() == [["model.unit", default, "gru"]]
    assert list(table.columns) == ["key", "a", "b"]
    assert [re.findall(r"c/config.yaml", reason) for reason in missing] == [["c/config.yaml"]]


def test_mixtures_have_no_keys_of_a_network(out: Path, tmp_path: Path) -> None:
    for name, changes in (("a", ["data.graph=[x]"]), ("b", ["model.unit=gru"])):
        run = shutil.copytree(out / "gru" / "seed1", tmp_path / name)
        load([], changes).save(run / "config.yaml")
    mono = make_mixtures(tmp_path / "gmm" / "mono")
    load([], ["data.graph=[y]", "model.unit=lstm"]).save(mono / "config.yaml")
    table, _ = tabulate_configurations(find_systems([tmp_path]))
    assert dict(zip(table["key"], table["mono"], strict=True)) == {
        "data.graph": "['y']",
        "model.unit": "–",
    }
