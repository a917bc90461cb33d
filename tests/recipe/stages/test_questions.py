"""What run.sh asks, and what it is told."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.recipe.stages.__main__ import QUESTIONS, main
from bayes_asr.recipe.stages.options import OptionError
from bayes_asr.recipe.stages.recipes import find_recipe
from bayes_asr.recipe.stages.systems import Systems, choose_systems
from tests.support.places import CONF
from tests.support.recipe_options import DEFAULTS, options_of

Asker = Callable[..., list[str]]
Chooser = Callable[..., Systems]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a recipe that makes everything, and one whose features are Kaldi's."""
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    files = {
        "recipes/made/config.yaml": "recipe: {offers: [dim, force]}",
        "recipes/made/prepare.py": "",
        "recipes/gmm/config.yaml": "recipe: {offers: corpus}",
        "recipes/gmm/kaldi.sh": "",
        "recipes/gmm/prepare.py": "",
        "recipes/gmm/corpus.py": "",
        "recipes/gmm/.#prepare.py": "",
        "recipes/given/config.yaml": "",
        "conf/experiments/pair/lstm.yaml": "",
        "conf/experiments/pair/gru.yaml": "",
        "size/small.yaml": "model: {layers: 2}",
        "corpus/a.wav": "",
    }
    for name, text in files.items():
        file = tmp_path / "checkout" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "checkout"


@pytest.fixture
def ask(root: Path) -> Asker:
    return lambda question, *words: [*QUESTIONS[question](options_of(*words), root)]


@pytest.fixture
def systems(root: Path) -> Chooser:
    def choose(*words: str) -> Systems:
        options = options_of(*words)
        return choose_systems(options, find_recipe(options.recipe, root), root)

    return choose


def test_recipe_is_found_by_its_name_or_folder(root: Path) -> None:
    found = find_recipe("gmm", root)
    assert (found.name, found.offers) == ("gmm", ("corpus",))
    assert find_recipe(f"{root}/recipes/gmm/", root).name == "gmm"
    os.chdir(root / "recipes/gmm")
    for folder in ("./", "./.", "../gmm/"):
        assert find_recipe(folder, root).name == "gmm"
    with pytest.raises(OptionError, match=r"--recipe absent: .*\(known recipes: given gmm made\)"):
        find_recipe("absent", root)
    with pytest.raises(OptionError, match=r"there is no \./gmm/config.yaml"):
        find_recipe("./gmm", root)
    (root / "recipes/gmm/config.yaml").write_text("recipe: {offers: [speed]}")
    with pytest.raises(InputError, match=r"line 1: recipe.offers is \['speed'\]") as caught:
        find_recipe("gmm", root)
    assert not isinstance(caught.value, OptionError), "the command line is right"


def test_wrong_setting_is_no_wrong_option(ask: Asker) -> None:
    with pytest.raises(InputError, match=r"train.epochs is 'x'") as caught:
        ask("check", "--recipe=made", "--set=train.epochs=x")
    assert not isinstance(caught.value, OptionError)


def test_settings_are_those_of_each_system(ask: Asker, root: Path) -> None:
    """An option may belong to the unit of a system, or of a configuration on top of the recipe."""
    experiment = root / "conf/experiments/peephole"
    experiment.mkdir(parents=True)
    (experiment / "lstm.yaml").write_text("model: {unit: lstm}")
    ask("check", "--recipe=made", "--experiment=peephole", "--set=model.peepholes=true")
    with pytest.raises(InputError, match="li-bru has no peepholes"):
        ask("check", "--recipe=made", "--set=model.peepholes=true")
    (root / "recipes/made/config.yaml").write_text("model: {peepholes: true}")
    ask("check", "--recipe=made", f"--config={experiment}/lstm.yaml")


def test_each_system_is_recognised_with_by_the_verb_of_what_it_learns(
    ask: Asker, root: Path
) -> None:
    pair = root / "conf/experiments/pair"

    def recognisers(*words: str) -> list[str]:
        return [line.split("\t")[0] for line in ask("systems", "--recipe=made", *words)]

    assert recognisers("--experiment=pair") == ["decode", "decode"]
    (pair / "lstm.yaml").write_text("data: {sequences: text}")
    assert recognisers("--experiment=pair") == ["decode", "generate"]
    (root / "recipes/made/config.yaml").write_text("data: {classes: utt2lang}")
    (pair / "lstm.yaml").write_text("data: {classes: null, sequences: text}")
    assert recognisers("--experiment=pair") == ["classify", "generate"]
    assert recognisers() == ["classify"]


def test_prepare_is_given_what_the_recipe_offers(ask: Asker, root: Path) -> None:
    words = ("--dim=20", "--force=true", f"--corpus={root}/corpus")
    corpus = ["--corpus", f"{root}/corpus"]
    made = [*corpus, "--force", "--dim", "20"]
    assert ask("prepare-options", "--recipe=made", *words) == made
    assert ask("prepare-options", "--recipe=gmm", *words) == corpus
    assert ask("prepare-options", "--recipe=gmm", "--corpus=-c") == ["--corpus", "./-c"]
    (root / "recipes/made/config.yaml").write_text("recipe: {options: [--per-speaker=9]}")
    assert ask("prepare-options", "--recipe=made") == ["--per-speaker=9"]
    fold = ("--recipe=made", "--set=recipe.options=[--fold]")
    assert ask("prepare-options", *fold) == ["--fold"]


def test_recipe_that_builds_on_another_has_its_folders_and_settings(ask: Asker, root: Path) -> None:
    gmm, small = root / "recipes/gmm", root / "recipes/small"
    small.mkdir()
    text = "include: ../gmm/config.yaml\nrecipe: {known_by: [speaker-*, b]}\nmodel: {layers: 1}\n"
    (small / "config.yaml").write_text(text)
    words = ("--recipe=small", f"--corpus={root}/corpus", f"--config={root}/size/small.yaml")
    assert ask("folders", *words) == [str(small), str(gmm)]
    changed = f"{root}/size/small.yaml changes what the recipe small sets: model.layers 1 -> 2"
    assert ask("check", *words) == [changed]


def test_share_of_utterances_without_features_is_said_where_it_is_set(
    ask: Asker, root: Path
) -> None:
    assert ask("max-skipped", "--recipe=gmm") == [""]
    assert ask("max-skipped", "--recipe=gmm", "--set=data.max_skipped=0.2") == ["0.2"]


def test_several_questions_are_answered_at_once_as_each_is_alone(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (*DEFAULTS, "--recipe=made", "--experiment=pair", "--dim=50")

    def ask(question: str) -> list[str]:
        assert main("run.sh", question, str(root), *options) == 0
        return capsys.readouterr().out.splitlines()

    questions = ("folders", "prepare-options", "max-skipped", "systems")
    alone = [f"{question}\t{line}" for question in questions for line in ask(question)]
    assert ask(",".join(questions)) == alone
    assert len(alone) == 1 + 2 + 1 + 2


def test_shorter_way_needs_the_script_of_the_recipe(ask: Asker, root: Path) -> None:
    words = ("--recipe=gmm", f"--corpus={root}/corpus", "--features=mfcc")
    with pytest.raises(OptionError, match="gmm, which has no without_kaldi"):
        ask("check", *words)
    (root / "recipes/gmm/without_kaldi.sh").touch()
    assert ask("check", *words) == []
    (root / "recipes/gmm/without_kaldi.yaml").write_text("train: {epochs: x}")
    with pytest.raises(InputError, match=r"without_kaldi\.yaml, line 1: train\.epochs"):
        ask("check", *words)


def test_keys_that_the_options_choose_are_named_where_a_configuration_sets_them(
    ask: Asker, root: Path
) -> None:
    small, pair = root / "size/small.yaml", root / "conf/experiments/pair"
    small.write_text("seed: 7\ndata: {dir: /elsewhere, index: /i}\nmodel: {layers: 2}\n")
    (root / "recipes/made/config.yaml").write_text("recipe: {offers: []}\nseed: 3\n")
    words = ("--recipe=made", f"--config={small}")
    said = [line.partition(" has no effect")[0] for line in ask("check", *words)[1:]]
    assert said == [f"{small}: {key}" for key in ("seed 7", "data.dir /elsewhere", "data.index /i")]
    (pair / "gru.yaml").write_text("seed: 5\n")
    (_, named) = ask("check", "--recipe=made", "--experiment=pair")
    assert named.startswith(f"{pair}/gru.yaml: seed 5 has no effect")
    assert ask("check", "--recipe=made") == []


def test_values_that_a_run_keeps_are_named_where_its_configuration_has_changed(
    ask: Asker, root: Path
) -> None:
    """Stage 3 records a configuration; later stages alone go by what it recorded."""
    small = root / "size/small.yaml"
    run = root / "out/small/seed2"
    words = ("--recipe=made", f"--config={small}", f"--out={run}")
    assert ask("ignored", *words, "--stage=4") == [], "no run: a stage says so"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(load([root / "recipes/made/config.yaml", small]).yaml)
    small.write_text("model: {layers: 3}\ndecode:\n  beam: 17\nscore: {costs: levenshtein}\n")
    assert ask("ignored", *words, "--stage=3") == []
    told = [line.partition(": a run takes")[0] for line in ask("ignored", *words, "--stage=4")]
    assert told == [
        f"{small}, line 3: decode.beam is 17.0, but {run} goes on with 13.0",
        f"{small}, line 4: score.costs is levenshtein, but {run} goes on with sclite",
    ]


def test_corpus_of_another_recipe_is_recognised(ask: Asker, root: Path) -> None:
    corpus, small = root / "corpus", root / "recipes/small"
    small.mkdir()
    text = "include: ../gmm/config.yaml\nrecipe: {known_by: [speaker-*, b]}\n"
    (small / "config.yaml").write_text(text)
    words = (f"--corpus={corpus}", "--stop-stage=0")
    (corpus / "b").touch()
    assert ask("check", "--recipe=gmm", *words) == [], "a part is not enough"
    (corpus / "speaker-1").mkdir()
    (said,) = ask("check", "--recipe=gmm", *words)
    assert said.endswith("to whose size gmm is not set; consider --recipe small")
    assert ask("check", "--recipe=small", *words) == []
    (small / "config.yaml").write_text("recipe: {known_by: {}")
    assert ask("check", "--recipe=gmm", *words) == [], "a damaged recipe is not its concern"


def test_recipe_configuration_or_experiment_names_systems(systems: Chooser, root: Path) -> None:
    words = ("--recipe=made", "--out=/results")
    small = f"--config={root}/size/small.yaml"
    one = systems(*words)
    assert (one.names, one.files, one.compared) == (("made",), (), ("/results",))
    assert systems(*words, small).names == ("small",)
    pair = systems(*words, "--experiment=pair")
    assert pair.names == ("gru", "lstm")
    folder = f"{root}/conf/experiments/pair"
    assert pair.files == (f"{folder}/gru.yaml", f"{folder}/lstm.yaml")
    both = systems(*words, small, f"--experiment={folder}/")
    assert both.names == ("gru-small", "lstm-small")
    assert both.compared == (
        *("/results/gru-small", "/results/lstm-small", "--out", "/results/report_pair-small"),
    )
    with pytest.raises(OptionError, match=r"\(known experiments: pair\)"):
        systems(*words, "--experiment=figure9")


def test_an_experiment_is_a_list_as_well(systems: Chooser, root: Path) -> None:
    file = root / "conf/experiments/listed.yaml"
    file.write_text("systems: {b: , a: {model: {layers: 1}}}\nhypotheses: [x = a < y = b]\n")
    listed = systems("--recipe=made", "--out=/out", "--experiment=listed")
    assert listed.names == ("b", "a")
    assert listed.files == (f"{file}#b", f"{file}#a")
    assert listed.compared == (
        *("/out/b", "/out/a", "--out", "/out/report_listed"),
        *("--group", "x=/out/a", "--against", "y=/out/b"),
    )
    alone = systems("--recipe=made", f"--config={file}#a")
    assert alone.names == ("a",)
    with pytest.raises(OptionError, match=r"\(known experiments: listed pair\)"):
        systems("--recipe=made", "--experiment=figure9")


def test_experiment_of_the_recipe_hides_that_of_all(systems: Chooser, root: Path) -> None:
    for experiment in ("pair", "rates"):
        own = root / "recipes/made/experiments" / experiment
        own.mkdir(parents=True)
        (own / "mgu.yaml").touch()
    words = ("--recipe=made", "--out=/results")
    assert systems(*words, "--experiment=pair").names == ("mgu",)
    other = systems("--recipe=gmm", "--corpus=.", "--experiment=pair")
    assert other.names == ("gru", "lstm")
    with pytest.raises(OptionError, match=r"\(known experiments: pair rates\)"):
        systems(*words, "--experiment=figure9")


def test_experiments_are_also_those_of_what_a_recipe_builds_on(
    systems: Chooser, ask: Asker, root: Path
) -> None:
    for home, names in {"made": ("pair", "rates"), "built": ("rates",)}.items():
        for name in names:
            file = root / "recipes" / home / "experiments" / name / f"{home}.yaml"
            file.parent.mkdir(parents=True)
            file.touch()
    (root / "recipes/built/config.yaml").write_text("include: ../made/config.yaml\n")
    words = ("--recipe=built", "--out=/results")
    assert systems(*words, "--experiment=pair").names == ("made",), "nearer than that of all"
    assert systems(*words, "--experiment=rates").names == ("built",)
    assert ask("refuse", *words, "--experiment=pair") == []
    with pytest.raises(OptionError, match=r"\(known experiments: pair rates\)"):
        systems(*words, "--experiment=figure9")


def test_experiment_states_hypotheses_about_its_systems(systems: Chooser, root: Path) -> None:
    folder = root / "conf/experiments/pair"
    (folder / "mgu.yaml").touch()
    (folder / "hypotheses.txt").write_text(
        "# Said beforehand.\n\ngated units = gru mgu gru < lstm = lstm # or not\na=gru<b=mgu\n"
    )
    words = ("--recipe=made", "--out=/results", "--experiment=pair")
    stated = systems(*words)
    assert stated.names == ("gru", "lstm", "mgu"), "a hypothesis is no system"
    assert stated.compared[5:] == (
        *("--group", "gated units=/results/gru", "/results/mgu"),
        *("--against", "lstm=/results/lstm"),
        *("--group", "a=/results/gru", "--against", "b=/results/mgu"),
    )
    small = systems(*words, f"--config={root}/size/small.yaml")
    assert small.compared[5:9] == (
        *("--group", "gated units=/results/gru-small", "/results/mgu-small", "--against"),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gru lstm", "line 2: a hypothesis is NAME = SYSTEM... < NAME = SYSTEM..."),
        ("a = gru", "a hypothesis is NAME"),
        ("a = gru < b = lstm < c = gru", "a hypothesis is NAME"),
        ("gru < lstm", "a hypothesis is NAME"),
        ("a = < b = lstm", "a hypothesis is NAME"),
        ("= gru < b = lstm", "a hypothesis is NAME"),
        ("-a = gru < b = lstm", "a hypothesis is NAME"),
        ("a = b = gru < c = lstm", "a hypothesis is NAME"),
        ("a = gru < b = lstn", "the experiment has no system lstn; did you mean lstm?"),
        ("a = gru < b = x", "no system x; there are gru lstm"),
        ("a = gru lstm < b = lstm", "lstm is on both sides"),
        ("\udcff = gru < b = lstm", "a hypothesis is NAME"),
    ],
)
def test_hypotheses_that_cannot_be_tested_are_refused_before_training(
    systems: Chooser, root: Path, line: str, message: str
) -> None:
    file = root / "conf/experiments/pair/hypotheses.txt"
    file.write_bytes(f"\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        systems("--recipe=made", "--experiment=pair")
    assert str(caught.value).startswith(f"{file}, line 2: ")


def test_figures_state_what_the_paper_finds(systems: Chooser) -> None:
    for name in ("figure1", "figure2", "variants"):
        folder = CONF / "experiments" / f"{name}.yaml"
        compared = systems("--recipe=made", "--out=/out", f"--experiment={folder}").compared
        words = " ".join(compared).replace("/out/", "")
        assert words.endswith(
            {
                "figure1": "--group log-probabilities=bru bru-log"
                " --against probabilities=rnn rnn-sigmoid",
                "figure2": "--group softplus=li-bru li-gru-softplus"
                " --against others=lstm gru li-gru",
                "variants": "--group state=li-bru --against gate=li-bru-own-gate",
            }[name]
        )


def test_questions_are_answered_by_status_and_one_line(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main("run.sh", "check", str(root), *DEFAULTS, "--recipe=absent") == 2
    assert main("run.sh", "check", str(root), *DEFAULTS, "--recipe=made", "--set=foo=1") == 1
    refused = capfd.readouterr()
    assert refused.out == ""
    assert [line.partition(" ")[0] for line in refused.err.splitlines()] == ["run.sh:"] * 2
    assert main("run.sh", "systems", str(root), *DEFAULTS, "--recipe=made") == 0
    assert capfd.readouterr().out == "decode\tmade\t\n"
