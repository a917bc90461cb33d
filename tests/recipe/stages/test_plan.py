"""What run.sh is told: what is run, and how the shell reads it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.recipe.stages.__main__ import main
from bayes_asr.recipe.stages.choices import OptionError, parse
from bayes_asr.recipe.stages.plan import Plan, absolute, make_plan, variables
from bayes_asr.recipe.stages.recipes import find_recipe
from tests.support.places import CONF

Planner = Callable[..., Plan]


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
def plan(root: Path) -> Planner:
    return lambda *words: make_plan(parse(words), root)


def test_recipe_is_found_by_its_name_or_folder(root: Path) -> None:
    found = find_recipe("gmm", root)
    assert (found.name, found.offers) == ("gmm", ("corpus",))
    assert find_recipe(f"{root}/recipes/gmm/", root).name == "gmm"
    with pytest.raises(OptionError, match=r"--recipe absent: .*\(known recipes: given gmm made\)"):
        find_recipe("absent", root)
    with pytest.raises(OptionError, match=r"there is no \./gmm/config.yaml"):
        find_recipe("./gmm", root)
    (root / "recipes/gmm/config.yaml").write_text("recipe: {offers: [speed]}")
    with pytest.raises(InputError, match=r"line 1: recipe.offers is \['speed'\]") as caught:
        find_recipe("gmm", root)
    assert not isinstance(caught.value, OptionError), "the command line is right"


def test_wrong_setting_is_no_wrong_option(plan: Planner) -> None:
    with pytest.raises(InputError, match=r"train.epochs is 'x'") as caught:
        plan("--recipe=made", "--set=train.epochs=x")
    assert not isinstance(caught.value, OptionError)


def test_settings_are_those_of_each_system(plan: Planner, root: Path) -> None:
    """An option may belong to the unit of a system, or of a configuration on top of the recipe."""
    experiment = root / "conf/experiments/peephole"
    experiment.mkdir(parents=True)
    (experiment / "lstm.yaml").write_text("model: {unit: lstm}")
    plan("--recipe=made", "--experiment=peephole", "--set=model.peepholes=true")
    with pytest.raises(InputError, match="li-bru has no peepholes"):
        plan("--recipe=made", "--set=model.peepholes=true")
    (root / "recipes/made/config.yaml").write_text("model: {peepholes: true}")
    plan("--recipe=made", "--config", str(experiment / "lstm.yaml"))


def test_recipe_alone_prepares_all_that_it_offers(plan: Planner, root: Path) -> None:
    made = plan("--recipe=made", "--dim=20", "--force").preparation
    out = f"{root}/exp/made"
    prepare = ("python", f"{root}/recipes/made/prepare.py", "--out", out, "--force", "--dim", "20")
    assert (made.prepares, made.prepare) == ("0-2", prepare)
    assert (made.prepared, made.kaldi, made.gmm, made.without_kaldi) == ((), (), (), "")


def test_each_system_is_recognised_with_by_the_verb_of_what_it_learns(
    plan: Planner, root: Path
) -> None:
    pair = root / "conf/experiments/pair"
    assert plan("--recipe=made", "--experiment=pair").recognisers == ("decode", "decode")
    (pair / "lstm.yaml").write_text("data: {sequences: text}")
    assert plan("--recipe=made", "--experiment=pair").recognisers == ("decode", "generate")
    (root / "recipes/made/config.yaml").write_text("data: {classes: utt2lang}")
    (pair / "lstm.yaml").write_text("data: {classes: null, sequences: text}")
    assert plan("--recipe=made", "--experiment=pair").recognisers == ("classify", "generate")
    assert plan("--recipe=made").recognisers == ("classify",)


def test_options_of_a_recipe_go_to_what_prepares_it(plan: Planner, root: Path) -> None:
    (root / "recipes/made/config.yaml").write_text("recipe: {options: [--per-speaker=9]}")
    prepare = plan("--recipe=made", "--out=o").preparation.prepare
    assert prepare[-2:] == (absolute("o"), "--per-speaker=9")


def test_recipe_takes_what_it_lacks_from_one_that_it_builds_on(plan: Planner, root: Path) -> None:
    gmm, small = root / "recipes/gmm", root / "recipes/small"
    small.mkdir()
    text = "include: ../gmm/config.yaml\nrecipe: {known_by: [speaker-*, b]}\nmodel: {layers: 1}\n"
    (small / "config.yaml").write_text(text)
    (small / "without_kaldi.yaml").write_text("train: {epochs: 2}")
    (gmm / "without_kaldi.sh").touch()
    words = ("--recipe=small", f"--corpus={root}/corpus", "--config", f"{root}/size/small.yaml")
    made = plan(*words)
    assert (made.recipe_dir, made.builds_on) == (str(small), (str(gmm),))
    script = f"{gmm}/prepare.py"
    assert made.preparation.prepare[1] == script
    assert script in made.preparation.prepared
    assert made.preparation.gmm[1:3] == ("--recipe", str(gmm))
    shorter = plan(*words, "--features=mfcc").preparation
    assert shorter.without_kaldi == f"{gmm}/without_kaldi.sh"
    said = f"{root}/size/small.yaml changes what the recipe small sets: model.layers 1 -> 2"
    assert made.notices == (said,)
    (root / "path.sh").touch()
    assert plan(*words).preparation.kaldi[1:3] == ("--recipe", str(gmm))


def test_corpus_of_another_recipe_is_recognised(plan: Planner, root: Path) -> None:
    corpus, small = root / "corpus", root / "recipes/small"
    small.mkdir()
    text = "include: ../gmm/config.yaml\nrecipe: {known_by: [speaker-*, b]}\n"
    (small / "config.yaml").write_text(text)
    words = (f"--corpus={corpus}", "--stop-stage=0")
    (corpus / "b").touch()
    assert plan("--recipe=gmm", *words).notices == (), "a part is not enough"
    (corpus / "speaker-1").mkdir()
    (said,) = plan("--recipe=gmm", *words).notices
    assert said.endswith("to whose size gmm is not set; consider --recipe small")
    assert plan("--recipe=small", *words).notices == ()
    (small / "config.yaml").write_text("recipe: {known_by: {}")
    assert plan("--recipe=gmm", *words).notices == (), "a damaged recipe is not its concern"


def test_nothing_is_prepared_where_kaldi_has_been(plan: Planner, root: Path) -> None:
    given = plan("--recipe=given", f"--kaldi-dir={root}/corpus")
    assert given.data_dir == f"{root}/corpus"
    assert not given.preparation.prepare


def test_stages_1_and_2_are_kaldis_ours_or_the_recipes(plan: Planner, root: Path) -> None:
    words = ("--recipe=gmm", f"--corpus={root}/corpus", "--out=/results/", "--nj=3")
    stages = plan(*words).preparation
    script = f"{root}/recipes/gmm/prepare.py"
    prepare = ("python", script, "--out", "/results/", "--corpus", f"{root}/corpus")
    assert (stages.prepares, stages.prepare) == ("0", prepare)
    assert stages.prepared[:3] == (
        *(f"{root}/recipes/gmm/{name}.py" for name in ("corpus", "prepare")),
        "/results//data/train/text",
    )
    more = ("--force", "--dim=50", "--features=fmllr")
    options = ("--recipe", f"{root}/recipes/gmm", "--out", "/results/", "--nj", "3")
    options = (*options, "--dim", "50", "--force")
    ours = plan(*words, *more).preparation
    assert ours.prepare == prepare, "--force and --dim are not its own"
    config = f"{root}/recipes/gmm/config.yaml"
    assert ours.gmm == (f"{root}/local/gmm.sh", *options, "--config", config)
    assert (ours.kaldi, ours.without_kaldi) == ((), "")
    compared = plan(*words, "--experiment=pair").systems.compared
    assert compared[:2] == ("/results//gmm", "/results//gru")
    with pytest.raises(OptionError, match="gmm, which has no without_kaldi"):
        plan(*words, "--features=mfcc")
    script = root / "recipes/gmm/without_kaldi.sh"
    script.touch()
    (root / "path.sh").touch()
    with_kaldi = plan(*words, *more).preparation
    assert with_kaldi.kaldi == (f"{root}/local/kaldi_gmm.sh", *options)
    assert (with_kaldi.gmm, with_kaldi.without_kaldi) == ((), "")
    assert plan(*words, "--experiment=pair").systems.compared[0] == "/results//gru"
    shorter = plan(*words, "--features=mfcc").preparation
    assert (shorter.kaldi, shorter.gmm, shorter.without_kaldi) == ((), (), str(script))


def test_systems_are_named_by_recipe_configuration_or_experiment(plan: Planner, root: Path) -> None:
    words = ("--recipe=made", "--out=/results")
    small = f"--config={root}/size/small.yaml"
    one = plan(*words).systems
    assert (one.systems, one.system_files, one.compared) == (("made",), (), ("/results",))
    assert plan(*words, small).systems.systems == ("small",)
    pair = plan(*words, "--experiment=pair").systems
    assert pair.systems == ("gru", "lstm")
    folder = f"{root}/conf/experiments/pair"
    assert pair.system_files == (f"{folder}/gru.yaml", f"{folder}/lstm.yaml")
    both = plan(*words, small, f"--experiment={folder}/").systems
    assert both.systems == ("gru-small", "lstm-small")
    assert both.compared == (
        *("/results/gru-small", "/results/lstm-small", "--out", "/results/report_pair-small"),
    )
    with pytest.raises(OptionError, match=r"\(known experiments: pair\)"):
        plan(*words, "--experiment=figure9")


def test_an_experiment_is_a_list_as_well(plan: Planner, root: Path) -> None:
    file = root / "conf/experiments/listed.yaml"
    file.write_text("systems: {b: , a: {model: {layers: 1}}}\nhypotheses: [x = a < y = b]\n")
    systems = plan("--recipe=made", "--out=/out", "--experiment=listed").systems
    assert systems.systems == ("b", "a")
    assert systems.system_files == (f"{file}#b", f"{file}#a")
    assert systems.compared == (
        *("/out/b", "/out/a", "--out", "/out/report_listed"),
        *("--group", "x=/out/a", "--against", "y=/out/b"),
    )
    alone = plan("--recipe=made", f"--config={file}#a").systems
    assert alone.systems == ("a",)
    with pytest.raises(OptionError, match=r"\(known experiments: listed pair\)"):
        plan("--recipe=made", "--experiment=figure9")


def test_experiment_of_the_recipe_hides_that_of_all(plan: Planner, root: Path) -> None:
    for experiment in ("pair", "rates"):
        own = root / "recipes/made/experiments" / experiment
        own.mkdir(parents=True)
        (own / "mgu.yaml").touch()
    words = ("--recipe=made", "--out=/results")
    assert plan(*words, "--experiment=pair").systems.systems == ("mgu",)
    other = plan("--recipe=gmm", "--corpus=.", "--experiment=pair").systems
    assert other.systems == ("gru", "lstm")
    with pytest.raises(OptionError, match=r"\(known experiments: pair rates\)"):
        plan(*words, "--experiment=figure9")


def test_experiment_states_hypotheses_about_its_systems(plan: Planner, root: Path) -> None:
    folder = root / "conf/experiments/pair"
    (folder / "mgu.yaml").touch()
    (folder / "hypotheses.txt").write_text(
        "# Said beforehand.\n\ngated units = gru mgu gru < lstm = lstm # or not\na=gru<b=mgu\n"
    )
    words = ("--recipe=made", "--out=/results", "--experiment=pair")
    stated = plan(*words).systems
    assert stated.systems == ("gru", "lstm", "mgu"), "a hypothesis is no system"
    assert stated.compared[5:] == (
        *("--group", "gated units=/results/gru", "/results/mgu"),
        *("--against", "lstm=/results/lstm"),
        *("--group", "a=/results/gru", "--against", "b=/results/mgu"),
    )
    small = plan(*words, f"--config={root}/size/small.yaml").systems
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
    plan: Planner, root: Path, line: str, message: str
) -> None:
    file = root / "conf/experiments/pair/hypotheses.txt"
    file.write_bytes(f"\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        plan("--recipe=made", "--experiment=pair")
    assert str(caught.value).startswith(f"{file}, line 2: ")


def test_figures_state_what_the_paper_finds(plan: Planner) -> None:
    for name in ("figure1", "figure2", "variants"):
        folder = CONF / "experiments" / f"{name}.yaml"
        compared = plan("--recipe=made", "--out=/out", f"--experiment={folder}").systems.compared
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


def test_folders_are_as_spelled_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    monkeypatch.setenv("PWD", f"{tmp_path}/link")
    assert absolute("./a/") == f"{tmp_path}/link/./a/"
    assert absolute("/b") == "/b"
    monkeypatch.setenv("PWD", "/elsewhere")
    assert absolute("a") == f"{tmp_path}/real/a"


def test_a_shell_reads_every_variable(plan: Planner, root: Path) -> None:
    values = ("a b", "$(touch pwned)\n'", "")
    words = [f"--set=data.index={value!r}" for value in values]
    made = plan("--recipe=made", *words, "--nproc=2", "--force")
    told = list(variables(made))
    script = """
        while IFS= read -r -d '' name && IFS= read -r -d '' number; do
            mapfile -d '' -t -n "$number" "$name"
        done
        printf '%s\\0' "${set[@]}" "$nproc" "$force" "[$dim]" "$stop_stage" "$out" "$recipe_dir"
    """
    text = "".join(f"{word}\0" for word in told)
    done = subprocess.run(["bash", "-euc", script], input=text, capture_output=True, text=True)
    settings = [word.removeprefix("--set=") for word in words]
    expected = [*settings, "2", "true", "[]", "7", f"{root}/exp/made", f"{root}/recipes/made"]
    assert done.stdout.split("\0")[:-1] == expected, done.stderr
    assert "config" not in told, "an array without values"
    assert not (root.parent / "pwned").exists()


def test_questions_are_answered_by_status_and_one_line(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main("run.sh", "plan", str(root), "--recipe=absent") == 2
    assert main("run.sh", "plan", str(root), "--recipe=made", "--set=foo=1") == 1
    refused = capfd.readouterr()
    assert refused.out == ""
    assert [line.partition(" ")[0] for line in refused.err.splitlines()] == ["run.sh:"] * 2
    assert main("run.sh", "plan", str(root), "--recipe=made") == 0
    assert "\0systems\0" + "1\0made\0" in capfd.readouterr().out
    stage = [str(root / "a.done"), str(root / "a"), "--", "command", "--", "more"]
    for answer in ("due", "complete"):
        assert main("run.sh", "is-complete", *stage) == 0
        assert capfd.readouterr().out == f"{answer}\n"
        assert main("run.sh", "completed", *stage) == 0
    (root / "file").touch()
    assert main("kaldi_gmm.sh", "completed", str(root / "file" / "a.done"), "--", "command") == 1
    assert capfd.readouterr().err.startswith(f"kaldi_gmm.sh: {root}/file")
