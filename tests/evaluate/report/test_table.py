"""The table of error rates: means over seeds, the LM weights of dev, and its four formats."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.report.details import tabulate_speakers
from bayes_asr.evaluate.report.page import explain
from bayes_asr.evaluate.report.runs import find_systems
from bayes_asr.evaluate.report.table import as_latex, as_markdown, as_text, tabulate_results
from bayes_asr.evaluate.score.counts import count_errors, tally
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, read_scores, write_scores
from bayes_asr.evaluate.score.statistics import beta_interval
from tests.support.report_runs import make_run, run_report

AWKWARD = pd.DataFrame({"a_b": ["50 %", "x|y"], "c": ["<td>", "1 ± 2"]})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two systems: `bru` with the seeds 2 and 10, and `gru` with one."""
    for seed in (2, 10):
        make_run(tmp_path / "bru" / f"seed{seed}", 0.3, seed)
    make_run(tmp_path / "gru" / "seed1", 0.4)
    return tmp_path


def test_seeds_of_a_configuration_are_one_system(out: Path) -> None:
    bru, gru = find_systems([out])
    assert (bru.name, gru.name) == ("bru", "gru")
    assert [run.path.name for run in bru.runs] == ["seed2", "seed10"]
    assert len(find_systems([out / "bru", out])) == 2


def test_systems_are_in_order_of_their_names(out: Path) -> None:
    shutil.copytree(out / "gru", out / "bru-log")
    shutil.copytree(out / "gru", out / "bru2")
    shutil.copytree(out / "gru", out / "bru10")
    names = [system.name for system in find_systems([out])]
    assert names == ["bru", "bru2", "bru10", "bru-log", "gru"]


def test_row_has_mean_spread_and_interval_of_the_mean(out: Path) -> None:
    table = tabulate_results(find_systems([out]))
    row = table[(table.system == "bru") & (table.rate == "PER strict")].iloc[0]
    counts = [
        read_scores(out / "bru" / f"seed{seed}" / "score_test.json")[0].counts for seed in (2, 10)
    ]
    rates = np.array([100 * c.errors / c.tokens for c in counts])
    assert row["test %"] == f"{rates.mean():.2f} ± {np.std(rates, ddof=1):.2f}"
    interval = beta_interval(round(sum(c.errors for c in counts) / 2), counts[0].tokens)
    assert row["test 95 %"] == f"[{interval.low:.2f}, {interval.high:.2f}]"
    assert (row["seeds"], row["parameters"]) == ("2", "6.1 M")


def test_every_convention_is_a_row(out: Path) -> None:
    table = tabulate_results(find_systems([out]))
    assert list(zip(table.system, table.rate, strict=True)) == [
        ("bru", "PER strict"),
        ("gru", "PER strict"),
        ("bru", "PER forgiving"),
        ("gru", "PER forgiving"),
    ]


def test_weights_of_the_seeds_are_listed(out: Path) -> None:
    make_run(out / "bru" / "seed3", 0.3, 3)
    table = tabulate_results(find_systems([out]))
    assert table["LM weight"].tolist() == ["5, 6", "6", "5, 6", "6"]


def test_features_of_the_built_in_front_end_are_said_to_lack_fmllr(out: Path) -> None:
    assert "features" not in tabulate_results(find_systems([out]))
    environment = {"parameters": 5, "frontend": {"kind": "mfcc", "cepstra": 13}}
    (out / "gru" / "seed1" / "env.json").write_text(json.dumps(environment))
    table = tabulate_results(find_systems([out]))
    assert dict(zip(table.system, table.features, strict=True)) == {
        "bru": "–",
        "gru": "MFCC, no fMLLR",
    }


def test_features_of_each_stream_are_said(out: Path) -> None:
    made = {"features": None, "filters": {"kind": "fbank"}, "pitch": {"kind": "mfcc"}}
    environment = {"frontend": None, "frontends": made}
    (out / "gru" / "seed1" / "env.json").write_text(json.dumps(environment))
    table = tabulate_results(find_systems([out / "gru"]))
    assert table["features"].tolist() == ["features + FBANK + MFCC, no fMLLR"] * 2


def test_features_that_our_mixtures_adapt_are_said_to_be(out: Path) -> None:
    made = {"features": {"kind": "mfcc", "adapted": "fmllr"}, "filters": {"kind": "fbank"}}
    for frontend, name in (
        ({"frontend": made["features"]}, "MFCC with fMLLR"),
        ({"frontend": None, "frontends": made}, "MFCC with fMLLR + FBANK"),
    ):
        (out / "gru" / "seed1" / "env.json").write_text(json.dumps(frontend))
        table = tabulate_results(find_systems([out / "gru"]))
        assert table["features"].tolist() == [name] * 2


def test_what_has_no_lm_weight_has_no_column_of_it(out: Path) -> None:
    scores = read_scores(out / "gru" / "seed1" / "score_test.json")
    unweighted = [replace(s, lm_weight=None, insertion_penalty=None) for s in scores]
    classes = out / "classes"
    write_scores(unweighted, classes / "score_test.json")
    systems = find_systems([classes])
    assert "LM weight" not in tabulate_results(systems)
    assert "LM weight" not in explain(systems)
    both = find_systems([classes, out / "gru"])
    assert tabulate_results(both)["LM weight"].tolist()[:2] == ["–", "6"]
    assert "LM weights are picked on dev" in explain(both)


def test_set_that_is_not_scored_is_a_dash(out: Path) -> None:
    (out / "gru" / "seed1" / "score_test.json").unlink()
    row = tabulate_results(find_systems([out / "gru"])).iloc[0]
    assert (row["test %"], row["test 95 %"]) == ("–", "–")
    assert row["dev %"] != "–"


def test_rate_beyond_all_tokens_has_no_interval(tmp_path: Path) -> None:
    ref, hyp = ("sil",), ("sil", "aa", "b")
    utterance = UtteranceScore("u", "u", count_errors(ref, hyp), ref, hyp)
    score = Score("test", "per", "strict", frozenset(), "sclite", 5, 0, [utterance])
    write_scores([score], tmp_path / "score_test.json")
    row = tabulate_results(find_systems([tmp_path])).iloc[0]
    assert float(row["test %"]) > 100
    assert row["test 95 %"] == "–"


def test_same_names_are_told_apart_by_their_folders(out: Path) -> None:
    shutil.copytree(out / "gru", out / "other" / "gru")
    assert [s.name for s in find_systems([out / "gru", out / "other"])] == [
        f"{out.name}/gru",
        "other/gru",
    ]


def test_folder_without_scores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no scored run here .*; run bayes-asr score first"):
        find_systems([tmp_path])


@pytest.mark.parametrize("name", ["history.jsonl", "env.json"])
def test_broken_records_are_named(out: Path, name: str) -> None:
    (out / "gru" / "seed1" / name).write_text("{")
    with pytest.raises(InputError, match=f"gru/seed1/{name}: not "):
        find_systems([out])


def test_text_is_aligned(out: Path) -> None:
    lines = as_text(tabulate_results(find_systems([out]))).splitlines()
    assert len(lines) == 5
    columns = {line.index("PER") for line in lines[1:]} | {lines[0].index("rate")}
    assert len(columns) == 1


def test_markdown_escapes_bars_and_html() -> None:
    assert (
        as_markdown(AWKWARD)
        == "| a_b | c |\n| --- | --- |\n| 50 % | &lt;td> |\n| x\\|y | 1 ± 2 |\n"
    )


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("< 0.0001", "< 0.0001"),
        ("a & b", "a & b"),
        ("&lt;b>", "&amp;lt;b>"),
        ("a\\|b", "a\\\\\\|b"),
        ("one\ntwo", "one\\\\ntwo"),
        ("![x](http://x)", "![x\\](http://x)"),
        ("[1.0, 2.0]", "[1.0, 2.0]"),
        ("\x1b[2J", "\\\\x1b[2J"),
        ("<!-- x -->", "&lt;!-- x -->"),
    ],
)
def test_nothing_in_a_cell_of_markdown_is_markup(cell: str, written: str) -> None:
    assert as_markdown(pd.DataFrame({"a": [cell]})).splitlines()[2:] == [f"| {written} |"]


def test_latex_escapes_its_own_characters() -> None:
    lines = as_latex(AWKWARD).splitlines()
    assert lines[2] == r"a\_b & c \\"
    assert lines[4:6] == [r"50 \% & <td> \\", r"x|y & 1 $\pm$ 2 \\"]


def test_text_of_no_rows_is_the_header() -> None:
    assert as_text(AWKWARD.iloc[:0]) == "a_b  c"


def test_text_for_a_terminal_has_no_control_characters() -> None:
    text = as_text(pd.DataFrame({"a": ["x\x1b]0;t\x07", "two\nlines", "\u202eright", "\udcff"]}))
    assert text.splitlines() == ["a", r"x\x1b]0;t\x07", r"two\nlines", r"\u202eright", r"\udcff"]


NUMBERS = ("epoch", "train_error", "dev_error")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epoch", None),  # null stands in the others, where a criterion counts no errors
        *product(NUMBERS, ["0.5", True, [], float("nan"), float("inf"), 10**400]),
    ],
)
def test_history_of_another_type_is_named(out: Path, key: str, value: object) -> None:
    path = out / "gru" / "seed1" / "history.jsonl"
    first, *others = path.read_text().splitlines()
    lines = [json.dumps(json.loads(first) | {key: value}), *others]
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"gru/seed1/history.jsonl: .*line 1: {key} is "):
        find_systems([out])


@pytest.mark.parametrize("key", NUMBERS)
def test_history_without_a_key_is_named(out: Path, key: str) -> None:
    path = out / "gru" / "seed1" / "history.jsonl"
    path.write_text(path.read_text().replace(f'"{key}"', '"other"'))
    with pytest.raises(InputError, match=rf"gru/seed1/history.jsonl: .*line 1: {key} is missing"):
        find_systems([out])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "the file is "),
        ('{"parameters": "many"}', "parameters is 'many', not a whole number or null"),
        ('{"parameters": 1e999}', "parameters is inf"),
        ('{"frontend": "mfcc"}', "frontend is 'mfcc', not an object or null"),
        ('{"frontend": {"kind": 3}}', "kind is 3, not a text or null"),
        ('{"frontends": ["mfcc"]}', "frontends is .*, not an object or null"),
        ('{"frontends": {"a": 3}}', "frontend is 3, not an object or null"),
    ],
)
def test_environment_of_another_type_is_named(out: Path, content: str, said: str) -> None:
    (out / "gru" / "seed1" / "env.json").write_text(content)
    with pytest.raises(InputError, match=rf"gru/seed1/env.json: .*{said}"):
        find_systems([out])


def test_a_run_by_two_paths_is_one_run(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out)
    (system,) = find_systems([Path("gru"), out / "gru", Path("gru/../gru/seed1")])
    assert len(system.runs) == 1


def test_folders_of_other_digits_are_sorted(out: Path) -> None:
    (out / "gru").rename(out / "v2²")
    assert [system.name for system in find_systems([out])] == ["bru", "v2²"]


def test_seeds_without_a_score_in_common_are_refused(out: Path) -> None:
    (out / "bru/seed2/score_dev.json").unlink()
    (out / "bru/seed10/score_test.json").unlink()
    with pytest.raises(InputError, match=r"bru: its 2 runs .*seed2: test \(.*seed10: dev \("):
        find_systems([out])


def test_rows_that_a_seed_lacks_and_runs_without_scores_are_named(out: Path, messages: Any) -> None:
    run_report(out)
    assert not messages()
    (out / "bru/seed10/score_dev.json").unlink()
    for scores in (out / "gru/seed1").glob("score_*.json"):
        scores.unlink()
    run_report(out)
    for convention in ("strict", "forgiving"):
        assert f"bru: no row of dev ({convention}), which {out}/bru/seed10 lacks" in messages()
    assert f"left out: {out}/gru/seed1 (killed, epoch 24" in messages()


def count_by_levenshtein(score: Score) -> Score:
    other = replace(score, costs="levenshtein")
    counted = [replace(u, counts=tally(other.alignment(u))) for u in score.utterances]
    return replace(other, utterances=counted)


def test_seeds_that_are_scored_otherwise_are_refused(out: Path) -> None:
    """By other costs, and on other references of one of the sets."""
    test, dev = (out / "bru/seed2" / f"score_{name}.json" for name in ("test", "dev"))
    scores = read_scores(test)
    write_scores([count_by_levenshtein(score) for score in scores], test)
    two = rf"{out}/bru/seed2 and {out}/bru/seed10"
    with pytest.raises(InputError, match=f"{two} differ in costs: levenshtein and sclite"):
        find_systems([out])
    write_scores(scores, test)
    shorter = [replace(score, utterances=score.utterances[1:]) for score in read_scores(dev)]
    write_scores(shorter, dev)
    with pytest.raises(InputError, match=f"{two} do not score the same dev references: of 15 and"):
        find_systems([out])


def test_scores_of_train_make_no_system(out: Path) -> None:
    for scores in (out / "gru/seed1").glob("score_*.json"):
        scores.rename(scores.with_name("score_train.json"))
    assert [system.name for system in find_systems([out])] == ["bru"]


@pytest.mark.parametrize("name", ["tokens", "speaker"])
def test_a_system_may_be_called_as_another_column(out: Path, name: str) -> None:
    (out / "gru").rename(out / name)
    systems = find_systems([out])
    key = systems[0].keys[0]
    table = tabulate_speakers(systems, key)
    assert list(table.columns) == ["speaker", "tokens", "bru", name]
    speakers = systems[1].runs[0].scores[key].speakers
    assert list(table.iloc[:, 3]) == [f"{counts.rate:.1f}" for counts in speakers.values()]
