"""Verbs and readers under attack: inputs that are well formed but mean, drawn by a seed.

    python -m tests.attacks.siege --seed 1 --count 10000

prints for each kind of attack how often it was answered, refused in one line, ended in a traceback,
took over a minute, or over 2 GiB, or was answered otherwise by a process that a user would start;
the status is 1 if one did any of the last four.
"""

import argparse
import atexit
import json
import math
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.tree import read_tree
from bayes_asr.train.runs.checkpoint import read
from tests.attacks.breakages import impatient
from tests.attacks.children import Limits, call
from tests.attacks.corpora import attack_corpora
from tests.attacks.every_verb import CALLS, command_of, habits, restore
from tests.attacks.extremes import EXTREMES, numeric_keys
from tests.attacks.fuzzing import MDL_TEXT, TREE_TEXT, checkpoint, network
from tests.attacks.graph_attacks import (
    attack_apart,
    attack_decode_options,
    attack_grammars,
    attack_graphs,
    attack_lattice_verbs,
    attack_lattices,
    attack_lexicon_fsts,
    attack_lexicons,
)
from tests.attacks.laboratory import inside, is_passing
from tests.attacks.mutations import BEYOND, SEPARATORS, damage_json, mutate
from tests.attacks.other_readers import refused_elsewhere
from tests.attacks.recipes import attack_recipes
from tests.attacks.replica import marks
from tests.attacks.verbs import RefusedError, draw_options, real_processes, verb
from tests.support.report_runs import make_run

SECONDS = 60
HAS_ONNX = bool(find_spec("onnx") and find_spec("onnxruntime"))
MEMORY = 2 << 20  # KiB, of one process
OUTCOMES = ("answered", "refused", "traceback", "over a minute", "over 2 GiB", "unlike")
OVER = {"seconds": "over a minute", "memory": "over 2 GiB"}
AT_ONCE = 10  # attacks of a kind before those of the next: one that is ended has met all kinds


def attack_texts(rng: random.Random, folder: Path) -> None:
    utterances = rng.randint(1, 3)
    letters = rng.choice((f"ab {SEPARATORS}", f"ab {SEPARATORS}".replace("\0", "")))
    for name in ("ref", "hyp"):
        lines = [
            f"u{i} {''.join(rng.choices(letters, k=rng.randint(0, 9)))}\n"
            for i in range(utterances)
        ]
        (folder / name).write_text("".join(lines), encoding="utf-8", newline="")
    stm = rng.random() < 0.2
    if stm:
        (folder / "ref").write_text(f"r 1 s 0 {rng.choice(('1', 'nan', '1e308'))} a\xa0b\n")
        (folder / "ref").rename(folder / "stm")
        (folder / "hyp").write_text(f"r 1 0 {rng.choice(('1', '-1', '1e-320'))} a{SEPARATORS[3]}\n")
    given = ["--ref", folder / ("stm" if stm else "ref"), "--hyp", folder / "hyp"]
    more = rng.choice(([], ["--map=timit"], ["--forgive=a"], ["--json"], ["--costs=levenshtein"]))
    verb("wer", *given, *more, *draw_options(rng, "wer"))


@cache
def scored_run() -> dict[str, bytes]:
    """The side files of a run, by name."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder))
        small = {path.name: path.read_bytes() for path in run.iterdir()}
    entries = json.loads(small["score_test.json"])
    small["state.json"] = json.dumps(
        {"state": "training", "epoch": 3, "epochs": 9, "dev_error": 0.5, "process": 1}
    ).encode()
    assert entries
    return small


def attack_side_files(rng: random.Random, folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    for name, content in scored_run().items():
        (run / name).write_bytes(content)
    name = rng.choice(("score_test.json", "score_test.json", "state.json", "history.jsonl"))
    lines = (run / name).read_text("utf-8")
    first = lines.partition("\n")[0] if name.endswith("l") else lines
    damaged = json.dumps(damage_json(json.loads(first), rng))
    (run / name).write_text(damaged + "\n", encoding="utf-8")
    if name == "score_test.json":
        verb("compare", run, run, "--replicates=100")
    verb("status", run)


def attack_checkpoints(rng: random.Random, folder: Path) -> None:
    """Entries of a checkpoint of other types, shapes and sizes, or away."""
    checkpoint(folder / "best.pt")
    content = damage_json(read(folder / "best.pt"), rng)
    torch.save(content, folder / "best.pt")
    network(folder / "best.pt")


def attack_lang(rng: random.Random, folder: Path) -> None:
    """Trees, models and tables of symbols whose numbers are changed."""
    name, text, reader = rng.choice(
        (
            ("tree", TREE_TEXT.decode(), read_tree),
            ("final.mdl", MDL_TEXT.decode(), read_transition_model),
            ("words.txt", "<eps> 0\na 1\nb 2\n#0 3\n", read_symbols),
        )
    )
    parts = re.split("(\\s)", text)
    for place in rng.sample(range(len(parts)), rng.randint(1, 3)):
        parts[place] = rng.choice((*map(str, BEYOND), rng.choice(parts), ""))
    (folder / name).write_text("".join(parts))
    reader(folder / name)


def attack_files(what: str, rng: random.Random, _: Path) -> None:
    """A call one of whose files is another one; it changes what it always changes, and no more."""
    lab, seen = restore(CALLS[what]), habits(what)
    name = rng.choice(seen.reads)
    how = mutate(lab / name, rng, [lab / other for other in seen.reads])
    before = marks(lab)
    with inside(lab), impatient():
        try:
            said = verb(*shlex.split(command_of(what)))
        except (RefusedError, InputError):
            raise
        except BaseException as error:
            raise AssertionError(f"{command_of(what)}: {name}: {how}") from error
        finally:
            after = marks(lab)
    changed = (Path(n) for n in before if after.get(n) != before[n])
    spoilt = [n for n in changed if not (seen.writes_in(n.parent) or is_passing(n))]
    assert not spoilt, f"{command_of(what)}: {name}: {how}: spoilt {spoilt}"
    with inside(lab):
        refused = what not in PARTIAL and name not in said and refused_elsewhere(lab / name)
    assert not refused, f"{command_of(what)}: {name}: {how}: accepted, but elsewhere: {refused}"


def attack_onnx(rng: random.Random, folder: Path) -> None:
    """Files of another network, with outputs of another shape, or with a bit changed."""
    for name in ("run", "data"):
        (folder / name).mkdir()
    checkpoint(folder / "run" / "best.pt")
    data = folder / "data"
    write_matrices([("u", np.ones((5, 3), np.float32))], data / "feats.ark", data / "feats.scp")
    (data / "utt2spk").write_text("u u\n")
    from tests.support.onnx_product import write_product

    file = write_product(
        folder / "net.onnx",
        inputs=3,
        columns=rng.choice((4, 4, 3)),
        width=rng.choice((3, 3, 3, 4, -1, 10**12)),
        rows=rng.choice((99, 99, 1, 2)),
        value=rng.choice((0.0, 1.0, math.inf, math.nan)),
    )
    raw = bytearray(file.read_bytes())
    if rng.random() < 0.5:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    file.write_bytes(raw)
    needed = ["--data", data, "--out", folder / "out", "--onnx", file]
    verb("forward", folder / "run", *needed)


def attack_compare_options(rng: random.Random, folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    (run / "score_test.json").write_bytes(scored_run()["score_test.json"])
    drawn = [o for o in draw_options(rng, "compare") if o != "--replicates=1000000"]
    if not any(option.startswith("--replicates") for option in drawn):
        drawn.append("--replicates=100")
    verb("compare", run, run, *drawn)


def attack_configuration(rng: random.Random, _: Path) -> None:
    keys = rng.sample(numeric_keys(), rng.randint(1, 3))
    settings = [f"{key}={rng.choice((*EXTREMES, *['1', '2', '1', '0.5'] * 8))}" for key in keys]
    load([], settings)
    verb("config", "--set", *settings)


def attack_includes(rng: random.Random, folder: Path) -> None:
    """Files that include each other: in a chain, several times, in a circle."""
    count, times = rng.choice((3, 30, 70)), rng.choice((1, 1, 2, 3))
    for number in range(count):
        further = [number + 1] * times if rng.random() > 1 / count else [rng.randrange(count)]
        names = [f"{n}.yaml" for n in further if n < count]
        (folder / f"{number}.yaml").write_text(f"include: [{', '.join(names)}]\nseed: {number}\n")
    verb("config", folder / "0.yaml")


def attack_options(rng: random.Random, folder: Path) -> None:
    """Every other verb, on inputs that are not there: numbers are refused before."""
    name = rng.choice(("features", "forward", "align", "transcribe", "score", "train"))
    needed = {
        "features": [folder / "no"],
        "forward": [folder / "no", "--on=dev"],
        "align": [folder / "no", "--on=dev", "--out", folder / "out"],
        "transcribe": [folder / "no", folder / "no.wav"],
        "score": [folder / "no"],
        "train": [folder / "no.yaml", "--out", folder / "out"],
    }
    options = list(draw_options(rng, name))
    drawn = [option for option in options if not option.startswith("--nproc")]
    verb(name, *needed[name], *drawn)


def attack_archives(rng: random.Random, _: Path) -> None:
    """A run as one file, whole or changed, in the place of a run."""
    lab = restore("heard")
    if rng.random() < 0.7:
        mutate(lab / "run.zip", rng, [lab / "run/best.pt"])
    with inside(lab), impatient():
        verb(*shlex.split(rng.choice(BY_ARCHIVE)))


BY_ARCHIVE = [
    *(f"{name} run.zip" for name in ("score", "status", "report", "generate", "export", "doctor")),
    *(f"{name} run.zip --out out" for name in ("fold", "combine run", "train", "g2p")),
    *(f"{name} run.zip --on dev --out out" for name in ("forward", "align", "pronunciation")),
    *(f"{name} run.zip --on dev" for name in ("decode", "classify", "gradients", "adapt")),
    "find run.zip a",
    "compare run.zip run",
    "import-weights run.zip out --cfg run.zip",
    "rescore --lattices run.zip --graph run.zip --out out",
    "denlats run.zip --graph exp/graph --out out",
    "align run.zip sounds/test0-1.wav --text words.txt --out out",
    "features run.zip",
    "graph --lexicon run.zip --lm run.zip --out out",
    "wer --ref run.zip --hyp run.zip",
]
PARTIAL = {"status", "report", "gradients"}  # go on without what they cannot read or need not
FILES = {f"files of {what}": what for what in CALLS}
RUN = "corpora of recipes, by run.sh"
PLACES_OF = {
    "packed runs": "heard",
    RUN: "run",
    **{attack: CALLS[what] for attack, what in FILES.items()},
}
ATTACKS: dict[str, Callable[[random.Random, Path], None]] = {
    "shapes and costs of lattices": attack_lattices,
    "shapes and costs of graphs": attack_graphs,
    "shapes, costs and words of HCL and G": attack_apart,
    "shapes and costs of L_disambig": attack_lexicon_fsts,
    "shapes and costs of L": attack_lexicons,
    "shapes and costs of lattices, by other verbs": attack_lattice_verbs,
    "options of decode": attack_decode_options,
    "lexicons, language models, options of graph": attack_grammars,
    "separators in texts, options of wer": attack_texts,
    "side files in JSON": attack_side_files,
    "entries of checkpoints": attack_checkpoints,
    "numbers in trees, models and words.txt": attack_lang,
    **({"ONNX files of other networks": attack_onnx} if HAS_ONNX else {}),
    "options of compare": attack_compare_options,
    "numbers in the configuration": attack_configuration,
    "includes of configurations": attack_includes,
    "options of the other verbs": attack_options,
    "packed runs": attack_archives,
    "corpora of the recipe folder": attack_corpora,
    **{attack: partial(attack_files, what) for attack, what in FILES.items()},
    RUN: attack_recipes,
}


@dataclass(frozen=True)
class Outcome:
    """What one attack came to, and the traceback, or what was refused."""

    attack: str
    number: int
    result: str
    trace: str = ""


def meet(attack: str, seed: int, number: int, folder: Path | None = None) -> Outcome:
    """Carry out attack `number` of a seed, in an empty folder."""
    folder = folder or field()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rng = random.Random(f"{attack} {seed} {number}")
    try:
        ATTACKS[attack](rng, folder)
    except (RefusedError, InputError) as refused:
        return Outcome(attack, number, "refused", str(refused))
    except BaseException:
        return Outcome(attack, number, "traceback", traceback.format_exc())
    return Outcome(attack, number, "answered")


@cache
def field() -> Path:
    """A place for all attacks of this process, in which each finds an empty folder."""
    place = Path(tempfile.mkdtemp(prefix="field-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place / "here"


def meet_in_child(attack: str, seed: int, number: int, *, real: bool = False) -> Outcome:
    """Carry out an attack in a child with limits; real: its verbs run as their users run them."""
    if place := PLACES_OF.get(attack):
        restore(place)  # here, where the next call knows what has changed
    folder = field()

    def function() -> Outcome:
        with real_processes() if real else nullcontext():
            return meet(attack, seed, number, folder)

    ended = call(function, Limits(SECONDS, MEMORY))
    if ended.over:
        return Outcome(attack, number, OVER[ended.over], ended.said[-2000:])
    if ended.value is None:
        died = f"the process died: status {ended.status}\n{ended.raised}{ended.said[-2000:]}"
        return Outcome(attack, number, "traceback", died)
    return ended.value


def besiege(
    attack: str, seed: int, numbers: Iterable[int], real_every: int = 0
) -> Iterator[Outcome]:
    """Carry out attacks, each in a child of its own; some of them once more by real processes.

    real_every: which share of them, 0 for none.
    """
    for number in numbers:
        outcome = meet_in_child(attack, seed, number)
        is_drawn = real_every and number % real_every == real_every // 2
        if is_drawn and outcome.result in OUTCOMES[:2]:
            real = meet_in_child(attack, seed, number, real=True)
            if without_waits(real) != without_waits(outcome):
                trace = f"in a child: {outcome}\nby a real process: {real}"
                outcome = Outcome(attack, number, "unlike", trace)
        yield outcome


def without_waits(outcome: Outcome) -> Outcome:
    """An outcome whose words do not say how patient its process was with pipes."""
    return replace(outcome, trace=re.sub(r"within [0-9.]+ s;", "in time;", outcome.trace))


def run(seed: int, count: int, log: Path, real_every: int) -> int:
    """Carry out `count` attacks, print the table and the tracebacks; returns the status.

    log: where each outcome is noted; those that are there and good are not met again; real_every:
    as of `besiege`.
    """
    each = -(-count // len(ATTACKS))
    with log.open("a+", encoding="utf-8") as notes:
        notes.seek(0)
        met = {(o.attack, o.number): o for o in (Outcome(**json.loads(line)) for line in notes)}
        good = {key for key, outcome in met.items() if outcome.result in OUTCOMES[:2]}
        for first, attack in product(range(0, each, AT_ONCE), ATTACKS):
            numbers = range(first, min(first + AT_ONCE, each))
            due = [number for number in numbers if (attack, number) not in good]
            if due and attack in FILES:
                habits(FILES[attack])  # here, for all children
            assert len(os.listdir("/proc/self/task")) == 1, "threads, which a fork would lose"
            for outcome in besiege(attack, seed, due, real_every):
                met[attack, outcome.number] = outcome
                print(json.dumps(asdict(outcome)), file=notes, flush=True)
    for attack in ATTACKS:
        table = Counter(outcome.result for outcome in met.values() if outcome.attack == attack)
        print(f"| {attack} | {' | '.join(str(table[r]) for r in OUTCOMES)} |", flush=True)
    bad = [outcome for outcome in met.values() if outcome.result not in OUTCOMES[:2]]
    for outcome in bad:
        print(f"\n{outcome.attack}, seed {seed}, number {outcome.number}: {outcome.result}")
        print(outcome.trace)
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000, help="of all kinds together")
    parser.add_argument(
        "--log", type=Path, default=Path(os.devnull), help="of outcomes: a siege goes on behind it"
    )
    parser.add_argument(
        "--real-every", type=int, default=50, help="the share met again by real processes, 0: none"
    )
    arguments = parser.parse_args()
    print(f"| attack | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}", flush=True)
    sys.exit(run(arguments.seed, arguments.count, arguments.log, arguments.real_every))
