"""What test_faults.py breaks on purpose; faults.md says what happens."""

import errno
import gzip
import pickle
import shutil
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from bayes_asr.base.files import HOST
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.train.runs.version_0_1 import upgrade_architecture
from tests.attacks.breakages import (
    ALI,
    ARK,
    HCLG,
    HEADER,
    LATTICES,
    LOGLIKES,
    MDL,
    SCP,
    Break,
    Code,
    again,
    alignments,
    both,
    change,
    checkpoint,
    circle,
    cut,
    cyclic_lattice,
    failing,
    folder,
    front_end,
    impatient,
    jumping_clock,
    link,
    longer_alignment,
    matrices,
    mode,
    moved_archive,
    named_pipe,
    nothing,
    overwrite,
    remove,
    renamed,
    small_files,
    sounds,
    unprivileged,
    vanishing,
    windows,
    within_gzip,
    without_line,
    write,
)

TRAIN = "train corpus.yaml --out run --new"
FORWARD = "forward run --data data/test --out out"
DECODE = (
    "decode --loglikes run/forward_test/loglikes.scp --graph exp/graph --model exp/ali/final.mdl"
    " --out out"
)
DECODE_ARK = DECODE.replace("loglikes.scp", "loglikes.ark")
RESCORE = "rescore --lattices run/decode_test/lat.1.gz --graph exp/graph --lmwt 1 --out out"
GRAPH = (
    "graph --lexicon dict/lexicon.txt --lm exp/graph/lm.arpa --model exp/ali/final.mdl"
    " --phones exp/ali/phones.txt --silence sil --out out"
)
SCORE = "score run"
FEATURES = "features data/sound"
WER = "wer --ref data/test/text --hyp run/decode_test/words.txt"


RECORD = b"test0-0 \0BFM "
FINAL = struct.pack("<i", 2**31 - 1)
TRAIN_AGAIN = "train corpus.yaml --out again"
SAME_NETWORK = ("again/best.pt", "run/best.pt")
SAME_WORDS = ("out/words.txt", "run/decode_test/words.txt")
SAME_GRAPH = ("out/HCLG.fst", "exp/graph/HCLG.fst")
SOUND = ("out/loglikes.ark", LOGLIKES)
BILLION = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 40)
)


@dataclass(frozen=True)
class Fault:
    """A row of the table: what is broken, how, and the command that meets it.

    `same` is empty where the command must fail; otherwise two files that must be equal after it.
    `during` is how the world is while the command runs. `measured`: the numbers in the complaint
    depend on the machine.
    """

    broken: str
    command: str
    how: Break
    same: tuple[str, str] | tuple[()] = ()
    during: Callable[[], AbstractContextManager[object]] = nullcontext
    measured: bool = False

    @property
    def verb(self) -> str:
        """What is asked of bayes-asr."""
        return self.command.split()[0]


LEFT = f"out/.{HOST}.99999999.0123456789abcdef.partial"

FAULTS = [
    # --- archives of features
    Fault("an archive cut within its last matrix", FORWARD, cut(ARK, -30)),
    Fault("an archive cut within a matrix header", FORWARD, cut(ARK, HEADER - 3)),
    Fault("an archive cut within the binary mark", FORWARD, cut(ARK, len("test0-0 ") + 1)),
    Fault("an archive cut to nothing", FORWARD, write(ARK, b"")),
    Fault("an archive cut within its first matrix", FORWARD, cut(ARK, 300)),
    Fault("a matrix of 2147483647 rows", FORWARD, overwrite(ARK, HEADER - 9, FINAL)),
    Fault("a matrix of -1 columns", FORWARD, overwrite(ARK, HEADER - 4, b"\xff" * 4)),
    Fault("a matrix of 0 rows", FORWARD, overwrite(ARK, HEADER - 9, b"\0" * 4)),
    Fault("a bit flipped in the type of a matrix", FORWARD, overwrite(ARK, 10, b"GM ")),
    Fault(
        "a bit flipped in an exponent: an infinite value",
        FORWARD,
        overwrite(ARK, HEADER, b"\0\0\x80\x7f"),
    ),
    Fault("a NaN", TRAIN, overwrite("data/train/feats.ark", HEADER + 9, b"\0\0\xc0\x7f")),
    Fault(
        "a value whose square is no number",
        TRAIN,
        overwrite("data/train/feats.ark", HEADER + 9, struct.pack("<f", 3e38)),
    ),
    Fault(
        "a name in an archive without a blank behind it",
        DECODE_ARK,
        overwrite("run/forward_test/loglikes.ark", 7, b"\r"),
    ),
    Fault("an archive that is a pickle", FORWARD, write(ARK, RECORD[:8] + pickle.dumps(Code()))),
    Fault(
        "integers instead of a matrix",
        FORWARD,
        write(ARK, b"test0-0 \0B\4\2\0\0\0\4\1\0\0\0\4\1\0\0\0"),
    ),
    Fault(
        "a matrix of text without its end",
        FORWARD,
        both(write(ARK, b"test0-0  [\n 1 2 3 4 5\n"), change(SCP, "ark:8", "ark:8")),
    ),
    Fault(
        "a matrix of text with rows of different lengths",
        FORWARD,
        write(ARK, b"test0-0  [\n 1 2 3 4 5\n 1 2 ]\n"),
    ),
    Fault(
        "a word among the numbers of a matrix",
        FORWARD,
        write(ARK, b"test0-0  [\n 1 2 3 4 five ]\n"),
    ),
    Fault(
        "compressed features cut short",
        FORWARD,
        write(ARK, b"test0-0 \0BCM \0\0\0\0\0\0\x80\x3f\x09\0\0\0\5\0\0\0" + b"\0" * 50),
    ),
    Fault(
        "utterances of different widths",
        FORWARD,
        matrices(
            SCP,
            ("test0-0", np.ones((3, 5), np.float32)),
            ("test0-1", np.ones((3, 4), np.float32)),
            ("test0-2", np.ones((3, 5), np.float32)),
        ),
    ),
    Fault(
        "features of another width than the network's",
        FORWARD,
        both(
            remove("data/test/cmvn.scp"),
            matrices(SCP, *((f"test0-{n}", np.ones((3, 7), np.float32)) for n in range(3))),
        ),
    ),
    Fault(
        "a text file in the place of an archive",
        FORWARD,
        write(ARK, "Dear diary, today is Friday\n" * 20),
    ),
    # --- indexes
    Fault("an offset behind the end of the archive", FORWARD, change(SCP, "ark:8", "ark:99999")),
    Fault("an offset that is off by one", FORWARD, change(SCP, "ark:8", "ark:9")),
    Fault("an offset of 30 digits", FORWARD, change(SCP, "ark:8", "ark:" + "9" * 30)),
    Fault("a range behind the last frame", FORWARD, change(SCP, "ark:8", "ark:8[0:999]")),
    Fault("a range that is none", FORWARD, change(SCP, "ark:8", "ark:8[1:2:3]")),
    Fault(
        "a command in feats.scp",
        FORWARD,
        change(SCP, "data/test/feats.ark:8", "touch executed; cat data/test/feats.ark |"),
    ),
    Fault(
        "a command in cmvn.scp",
        f"{FORWARD}",
        both(
            change("run/config.yaml", "cmvn: none", "cmvn: mean"),
            change("data/test/cmvn.scp", "data/test/cmvn.ark:6", "touch executed |"),
        ),
    ),
    Fault(
        "a command in the name of an archive",
        DECODE.replace("run/forward_test/loglikes.scp", "touch${IFS}executed|"),
        nothing,
    ),
    Fault("a line without a file", FORWARD, change(SCP, " data/test/feats.ark:8", "")),
    Fault("an utterance twice in feats.scp", FORWARD, again(SCP)),
    Fault("an empty feats.scp", FORWARD, write(SCP, "")),
    Fault("feats.scp is missing", FORWARD, remove(SCP)),
    Fault("the archive that it names is missing", FORWARD, remove(ARK)),
    Fault("a directory in the place of an archive", FORWARD, folder(ARK)),
    Fault("a link to itself in the place of an archive", FORWARD, circle(ARK)),
    Fault("a named pipe in the place of an archive", FORWARD, named_pipe(ARK), during=impatient),
    Fault("a named pipe in the place of feats.scp", FORWARD, named_pipe(SCP), during=impatient),
    Fault("/dev/zero in the place of feats.scp", FORWARD, link(SCP, "/dev/zero")),
    Fault("/dev/zero in the place of an archive", FORWARD, link(ARK, "/dev/zero")),
    # --- tables
    Fault("utt2spk is missing", FORWARD, remove("data/test/utt2spk")),
    Fault("an utterance without a speaker", FORWARD, without_line("data/test/utt2spk", 1)),
    Fault("an utterance without features", FORWARD, without_line(SCP, 1)),
    Fault(
        "an utterance without features, among the run's own sets",
        "forward run --on test --out out",
        without_line(SCP, 1),
    ),
    Fault(
        "three columns in utt2spk",
        FORWARD,
        change("data/test/utt2spk", "test0-1 test0", "test0-1 test0 x"),
    ),
    Fault("text that is not UTF-8", SCORE, change("data/test/text", "a b", b"a b\xe9")),
    Fault("a zero byte in text", SCORE, change("data/test/text", "a b", b"a \0b")),
    Fault("UTF-16 text", SCORE, write("data/test/text", "test0-0 a b\n".encode("utf-16"))),
    Fault("an utterance twice in text", SCORE, again("data/test/text")),
    Fault("an utterance without its reference", SCORE, without_line("data/test/text", 1)),
    Fault("text is empty", SCORE, write("data/test/text", "")),
    Fault("a directory in the place of text", SCORE, folder("data/test/text")),
    Fault(
        "a word that words.txt does not know", DECODE, change("exp/graph/words.txt", "b 2", "b 9")
    ),
    Fault("an id twice in words.txt", DECODE, change("exp/graph/words.txt", "b 2", "b 1")),
    # --- alignments and models
    Fault("an alignment archive cut", TRAIN, cut(ALI, -20), measured=True),
    Fault(
        "a byte of a compressed alignment archive changed", TRAIN, overwrite(ALI, -8, b"\0\0\0\0")
    ),
    Fault(
        "an alignment archive cut before it was compressed",
        TRAIN,
        within_gzip(ALI, lambda raw: raw[:-7]),
        measured=True,
    ),
    Fault("plain text that is named ali.1.gz", TRAIN, write(ALI, "train0-0 1 2 3\n")),
    Fault("an empty ali.1.gz", TRAIN, write(ALI, "")),
    Fault(
        "an alignment of 2147483647 frames",
        TRAIN,
        within_gzip(ALI, lambda raw: raw[:12] + FINAL + raw[16:]),
        measured=True,
    ),
    Fault("a transition-id that the model has not", TRAIN, alignments(("train0-0", [1, 99]))),
    Fault(
        "an alignment one frame longer than its features",
        TRAIN,
        longer_alignment,
    ),
    Fault(
        "an utterance aligned twice",
        TRAIN,
        lambda lab: shutil.copy(lab / ALI, lab / "exp/ali/ali.3.gz"),
    ),
    Fault("too many utterances without an alignment", TRAIN, remove("exp/ali/ali.2.gz")),
    Fault("no archive of alignments", TRAIN, both(remove(ALI), remove("exp/ali/ali.2.gz"))),
    Fault("final.mdl cut", TRAIN, cut(MDL, 60)),
    Fault("final.mdl is missing", TRAIN, remove(MDL)),
    Fault("final.mdl of another kind", TRAIN, write(MDL, "\0B<Nnet> hello")),
    Fault(
        "2147483647 states in final.mdl",
        TRAIN,
        change(MDL, b"<Triples> \4\6\0\0\0", b"<Triples> \4" + FINAL),
    ),
    Fault(
        "final.mdl of another training",
        TRAIN,
        lambda lab: write_transition_model(build_monophone_model((2, 3), 2), lab / MDL),
    ),
    # --- graphs, log-likelihoods, lattices
    Fault("HCLG.fst cut", DECODE, cut(HCLG, -9)),
    Fault("HCLG.fst with 2^62 states", DECODE, overwrite(HCLG, 50, struct.pack("<q", 2**62))),
    Fault("HCLG.fst of a lattice", DECODE, change(HCLG, "standard", "lattice4")),
    Fault("an arc to a state that is not there", DECODE, overwrite(HCLG, -4, FINAL)),
    Fault(
        "a graph of another model",
        DECODE,
        lambda lab: write_transition_model(build_monophone_model((2, 3), 2), lab / MDL),
    ),
    Fault("words.txt is missing", DECODE, remove("exp/graph/words.txt")),
    Fault("log-likelihoods cut", DECODE_ARK, cut(LOGLIKES, -9)),
    Fault(
        "one damaged utterance among log-likelihoods",
        DECODE,
        overwrite(LOGLIKES, HEADER - 9, FINAL),
    ),
    Fault("log-likelihoods with NaN", DECODE_ARK, overwrite(LOGLIKES, HEADER, b"\0\0\xc0\x7f")),
    Fault(
        "log-likelihoods of another model",
        DECODE_ARK,
        matrices("run/forward_test/loglikes.scp", ("test0-0", np.zeros((9, 5), np.float32))),
    ),
    Fault("an empty archive of log-likelihoods", DECODE_ARK, write(LOGLIKES, "")),
    Fault("a lattice archive cut", RESCORE, cut(LATTICES, -20), measured=True),
    Fault(
        "a lattice archive cut before it was compressed",
        RESCORE,
        within_gzip(LATTICES, lambda raw: raw[:-3]),
        measured=True,
    ),
    Fault("a lattice with a cycle", RESCORE, cyclic_lattice),
    Fault(
        "an empty lattice archive",
        RESCORE,
        lambda lab: (lab / LATTICES).write_bytes(gzip.compress(b"")),
    ),
    # --- language
    Fault("a language model without its end", GRAPH, change("exp/graph/lm.arpa", "\\end\\", "")),
    Fault(
        "fewer n-grams than announced", GRAPH, change("exp/graph/lm.arpa", "ngram 1=", "ngram 1=9")
    ),
    Fault("a phone that the model has not", GRAPH, write("dict/lexicon.txt", "a bah\nb zah\n")),
    Fault("a word without a pronunciation", GRAPH, write("dict/lexicon.txt", "a bah\nb\n")),
    Fault("an empty lexicon", GRAPH, write("dict/lexicon.txt", "")),
    Fault("a tree cut", GRAPH, cut("exp/ali/tree", -12)),
    Fault("a tree of another model", GRAPH, change("exp/ali/tree", b"CE \4\5", b"CE \4\x63")),
    # --- checkpoints
    Fault("best.pt cut", FORWARD, cut("run/best.pt", 500)),
    Fault("best.pt is empty", FORWARD, write("run/best.pt", "")),
    Fault("best.pt is missing", FORWARD, remove("run/best.pt")),
    Fault("best.pt that would run code", FORWARD, checkpoint(model=Code())),
    Fault("best.pt without its network", FORWARD, checkpoint(model={})),
    Fault(
        "best.pt of another size",
        FORWARD,
        front_end(mean=torch.zeros(7), deviation=torch.ones(7)),
    ),
    Fault("best.pt with a word for a tensor", FORWARD, front_end(mean="zero")),
    Fault("best.pt of a later version", FORWARD, checkpoint(format=99)),
    Fault(
        "a million million units in best.pt",
        FORWARD,
        checkpoint(
            architecture=upgrade_architecture({"inputs": 5, "outputs": [6], "units": [10**12]})
        ),
    ),
    Fault("a run without config.yaml", FORWARD, remove("run/config.yaml")),
    # --- configuration
    Fault("a key that does not exist", TRAIN, change("corpus.yaml", "epochs", "epoch")),
    Fault("a number that is a word", TRAIN, change("corpus.yaml", "units: 8", "units: many")),
    Fault("a number out of its range", TRAIN, change("corpus.yaml", "0.02", "-1")),
    Fault("a key twice", TRAIN, change("corpus.yaml", "layers: 1", "layers: 1, layers: 2")),
    Fault("a configuration that is not YAML", TRAIN, write("corpus.yaml", "model: {layers: 1\n")),
    Fault("a configuration that is not UTF-8", TRAIN, write("corpus.yaml", b"# caf\xe9\n")),
    Fault(
        "includes in a circle",
        TRAIN,
        both(
            write("corpus.yaml", "include: other.yaml\n"),
            write("other.yaml", "include: corpus.yaml\n"),
        ),
    ),
    Fault("an include that is missing", TRAIN, write("corpus.yaml", "include: other.yaml\n")),
    Fault(
        "a YAML tag that would make an object",
        TRAIN,
        write("corpus.yaml", "seed: !!python/object/apply:os.mkdir [executed]\n"),
    ),
    Fault("aliases that double forty times", TRAIN, write("corpus.yaml", BILLION)),
    Fault("an alias of itself", TRAIN, write("corpus.yaml", "data: &a {dir: *a}\n")),
    Fault(
        "10 000 brackets in a configuration", TRAIN, write("corpus.yaml", "seed: " + "[" * 10_000)
    ),
    Fault(
        "a number of 5000 digits in a configuration",
        TRAIN,
        write("corpus.yaml", "seed: " + "9" * 5000),
    ),
    Fault(
        "a date that does not exist in a configuration",
        TRAIN,
        write("corpus.yaml", "seed: 2001-99-99\n"),
    ),
    Fault("a zero byte in a configuration", TRAIN, write("corpus.yaml", b"seed: 1\0\n")),
    Fault("/dev/zero in the place of a configuration", TRAIN, link("corpus.yaml", "/dev/zero")),
    Fault(
        "a named pipe in the place of a configuration",
        TRAIN,
        named_pipe("corpus.yaml"),
        during=impatient,
    ),
    Fault("a directory in the place of a configuration", TRAIN, folder("corpus.yaml")),
    Fault(
        "a shell command as a value",
        f"{TRAIN} --set=data.dir=$(touch${{IFS}}executed)",
        nothing,
    ),
    # --- results
    Fault("a hypothesis file is missing", SCORE, remove("run/decode_test/words.lmwt2.wip0.0.txt")),
    Fault("no hypotheses for dev", SCORE, remove("run/decode_dev")),
    Fault(
        "a hypothesis without one utterance",
        SCORE,
        without_line("run/decode_test/words.lmwt2.wip0.0.txt", 0),
    ),
    Fault("a score that is not JSON", "compare run run", write("run/score_test.json", "[{")),
    Fault("a score that lacks a key", "compare run run", write("run/score_test.json", "[{}]")),
    Fault(
        "a score that contradicts itself",
        "compare run run",
        change("run/score_test.json", '"reference": "a b"', '"reference": "a a b"'),
    ),
    Fault(
        "a score of deep brackets", "compare run run", write("run/score_test.json", "[" * 100_000)
    ),
    # --- where results go
    Fault("a file in the place of the output folder", FORWARD, write("out", "")),
    Fault(
        "a directory in the place of an output file",
        FORWARD,
        lambda lab: (lab / "out/loglikes.ark").mkdir(parents=True),
    ),
    Fault(
        "no room for the output (a limit on the size of files)",
        FORWARD,
        nothing,
        during=lambda: small_files(700),
    ),
    Fault("no room for a checkpoint", TRAIN, nothing, during=lambda: small_files(5000)),
    Fault("no room for lattices", DECODE, nothing, during=lambda: small_files(500)),
    Fault(
        "the disk is full when a file is synced",
        FORWARD,
        nothing,
        during=failing("fsync", errno.ENOSPC),
    ),
    Fault(
        "the disk is full when a file is renamed",
        FORWARD,
        nothing,
        during=failing("replace", errno.ENOSPC),
    ),
    Fault(
        "the disk is full when a score is renamed",
        SCORE,
        nothing,
        during=failing("replace", errno.ENOSPC),
    ),
    Fault(
        "a quota is exceeded when a checkpoint is synced",
        TRAIN,
        nothing,
        during=failing("fsync", errno.EDQUOT),
    ),
    Fault("the disk fails", FORWARD, nothing, during=failing("fsync", errno.EIO)),
    Fault("a file that may not be read", FORWARD, mode(ARK, 0), during=unprivileged),
    Fault(
        "a configuration that may not be read", TRAIN, mode("corpus.yaml", 0), during=unprivileged
    ),
    Fault(
        "a folder of alignments that may not be read",
        TRAIN,
        mode("exp/ali", 0o300),
        during=unprivileged,
    ),
    Fault("a folder that may not be written to", FORWARD, mode("out", 0o555), during=unprivileged),
    Fault("a run that may not be written to", TRAIN, mode("run", 0o555), during=unprivileged),
    Fault("an archive that vanishes between two utterances", FORWARD, nothing, during=vanishing),
    # --- sound
    Fault("a sound cut short", FEATURES, sounds(cut("data/sound/a.wav", -100))),
    Fault(
        "a sound of 4 GiB by its header",
        FEATURES,
        sounds(overwrite("data/sound/a.wav", 40, b"\xfe" * 4)),
    ),
    Fault("a sound of 0 bits", FEATURES, sounds(overwrite("data/sound/a.wav", 34, b"\0"))),
    Fault("an empty sound", FEATURES, sounds(write("data/sound/a.wav", b""))),
    Fault(
        "a text in the place of a sound", FEATURES, sounds(write("data/sound/a.wav", "Dear diary"))
    ),
    Fault("a SPHERE file cut in its header", FEATURES, sounds(cut("data/sound/b.sph", 200))),
    Fault(
        "a SPHERE file compressed by shorten",
        FEATURES,
        sounds(change("data/sound/b.sph", "s3 pcm", "s26 pcm,embedded-shorten-v2.00")),
    ),
    Fault(
        "a SPHERE file of 10^12 samples",
        FEATURES,
        sounds(change("data/sound/b.sph", "count -i 16000", "count -i 1000000000000")),
    ),
    Fault(
        "a sampling rate of a hertz",
        FEATURES,
        sounds(overwrite("data/sound/a.wav", 24, b"\1\0\0\0")),
    ),
    Fault(
        "a command in wav.scp",
        FEATURES,
        sounds(change("data/sound/wav.scp", "data/sound/b.sph", "touch executed |")),
    ),
    Fault(
        "a segment of a recording that is not there",
        FEATURES,
        sounds(write("data/sound/segments", "x-a zz 0 0.5\n")),
    ),
    Fault(
        "a segment that ends before it begins",
        FEATURES,
        sounds(write("data/sound/segments", "x-a x-a 0.5 0.2\n")),
    ),
    # --- what is odd, and right
    Fault(
        "Windows line ends and a byte order mark in feats.scp, utt2spk and text",
        FORWARD,
        windows(SCP, "data/test/utt2spk", "data/test/text"),
        SOUND,
    ),
    Fault(
        "Windows line ends and a byte order mark in a configuration",
        TRAIN_AGAIN,
        windows("corpus.yaml"),
        SAME_NETWORK,
    ),
    Fault(
        "Windows line ends and a byte order mark in words.txt",
        DECODE,
        windows("exp/graph/words.txt"),
        SAME_WORDS,
    ),
    Fault(
        "Windows line ends and a byte order mark in a lexicon and a language model",
        GRAPH,
        windows("dict/lexicon.txt", "exp/graph/lm.arpa"),
        SAME_GRAPH,
    ),
    Fault(
        "blank lines in feats.scp, and no line end at its end",
        FORWARD,
        lambda lab: (lab / SCP).write_text(
            "\n" + (lab / SCP).read_text().replace("\n", "\n \n").rstrip()
        ),
        SOUND,
    ),
    Fault(
        "spaces and letters of other alphabets in a path",
        FORWARD,
        moved_archive("data/mes données/речь 語.ark"),
        SOUND,
    ),
    Fault("a colon in a path", FORWARD, moved_archive("data/12:30/feats.ark"), SOUND),
    Fault(
        "a colon in the name of log-likelihoods",
        DECODE.replace("run/forward_test/loglikes.scp", "12:30.scp"),
        renamed("run/forward_test/loglikes.scp", "12:30.scp"),
        SAME_WORDS,
    ),
    Fault(
        "a link to an archive",
        FORWARD,
        both(
            renamed(ARK, "elsewhere.ark"), lambda lab: (lab / ARK).symlink_to(lab / "elsewhere.ark")
        ),
        SOUND,
    ),
    Fault(
        "files that a killed job left unfinished",
        FORWARD,
        both(lambda lab: (lab / LEFT).mkdir(parents=True), write(f"{LEFT}/loglikes.ark", "half")),
        SOUND,
    ),
    Fault(
        "a clock that goes back an hour whenever it is asked",
        TRAIN_AGAIN,
        nothing,
        SAME_NETWORK,
        during=jumping_clock,
    ),
]
