"""Small sound files of every format that is read, and damaged ones made of them by a seed."""

import gzip
import io
import random
import signal
import struct
import tracemalloc
import wave
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kaldiio
import numpy as np
import soundfile
import torch

from bayes_asr.base.errors import InputError, printable
from bayes_asr.config.merge import load
from bayes_asr.data.sound.audio import read_audio
from bayes_asr.data.targets.alignments import read_counts
from bayes_asr.decode.forward.log_likelihoods import load as load_run
from bayes_asr.decode.graph.lexicon import read_lexicon
from bayes_asr.decode.graph.ngram import read_arpa
from bayes_asr.decode.graph.topology import build_topology, write_topology
from bayes_asr.evaluate.score.nist import read_ctm, read_stm
from bayes_asr.evaluate.score.phones import read_phone_map
from bayes_asr.evaluate.score.scores import Score, read_scores, write_scores
from bayes_asr.evaluate.score.sweeps import Reference, score_utterances
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices, read_scp, write_matrices
from bayes_asr.kaldi_io.context_dependency import build_monophone_tree
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.lattice import CompactLattice, Lattice
from bayes_asr.kaldi_io.lattice_files import iter_lattices, write_lattices
from bayes_asr.kaldi_io.mdl import read_topology, read_transition_model, write_transition_model
from bayes_asr.kaldi_io.mixtures import Mixtures
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text
from bayes_asr.kaldi_io.tree import read_tree, write_tree
from bayes_asr.nn.network import AcousticModel
from bayes_asr.pytorch_kaldi.weights import read_weights
from bayes_asr.train.runs.checkpoint import save
from bayes_asr.train.runs.version_0_1 import upgrade_architecture

MEMORY = 16 << 20  # bytes that a reader may hold; the files have a few hundred
SECONDS = 5.0  # of this process, for one input
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**16, 2**24 + 1)
WORDS = (
    *(b"nan", b"-inf", b"1e999", b"-1", b"0", b"9" * 30, b"9" * 5000, b"2147483648", b"1e-400"),
    *(b"\0", b"\xff\xfe", b"\xe9", "ü".encode(), b"\r\n", b"\n\n", b"\t", b" ", b"\xef\xbb\xbf"),
    *(b"[", b"]", b"{", b"}", b"<", b">", b"(", b")", b"[" * 3000, b"&a ", b"*a", b"!!float "),
    *(b"|", b"touch executed |", b"$(touch executed)", b"../../executed", b"/dev/zero", b"ark:-"),
)
MATRICES = [(f"utt{i}", np.random.default_rng(i).normal(size=(9, 3))) for i in range(3)]
MDL_TEXT = b"""<TransitionModel> <Topology> <TopologyEntry> <ForPhones> 1 2 </ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State> <State> 1 </State>
</TopologyEntry> </Topology> <Triples> 2
1 0 0
2 0 1
</Triples> <LogProbs> [ 0 -0.28 -1.38 -0.28 -1.38 ] </LogProbs> </TransitionModel>
"""
GMM_TEXT = b"""<DIMENSION> 1 <NUMPDFS> 2
<DiagGMM> <WEIGHTS> [ 0.5 0.5 ] <MEANS_INVVARS> [
 1
 2 ] <INV_VARS> [
 1
 3 ] </DiagGMM>
<DiagGMM> <WEIGHTS> [ 1 ] <MEANS_INVVARS> [ 1 ] <INV_VARS> [ 1 ] </DiagGMM>
"""
TREE_TEXT = b"""ContextDependency 3 1 ToPdf SE 0 [ 1 2 ]
{ TE 1 3 ( NULL CE 0 CE 1 )
CE 2 }
EndContextDependency
"""
YAML = """\
include: []
seed: 3
model: {unit: li-bru, layers: 2, units: [4, 5], dropout: 0.1}
train:
  learning_rate: 1e-3
"""
ARPA = """\
\\data\\
ngram 1=3
ngram 2=1

\\1-grams:
-99 <s> -0.3
-0.5 a -0.2
-0.7 </s>

\\2-grams:
-0.1 <s> a

\\end\\
"""
STM = ";; a comment\nr 1 anna 0.00 1.50 <o,f0> hello (uh) world\nr 1 bert 1.50 2.00 yes\n"
LATTICE = Lattice(
    offsets=np.array([0, 2, 3, 3]),
    ilabel=np.array([1, 2, 3], np.int32),
    olabel=np.array([5, 0, 6], np.int32),
    graph=np.array([0.5, 1, 0], np.float32),
    acoustic=np.array([-3, 2, 0], np.float32),
    nextstate=np.array([1, 2, 2], np.int32),
    final_graph=np.array([np.inf, np.inf, 0], np.float32),
    final_acoustic=np.array([np.inf, np.inf, 1], np.float32),
)
LATTICES = [("u1", LATTICE), ("u2", LATTICE)]
WORD_LATTICE = CompactLattice(
    offsets=LATTICE.offsets,
    word=LATTICE.olabel,
    graph=LATTICE.graph,
    acoustic=LATTICE.acoustic,
    nextstate=LATTICE.nextstate,
    tid_offsets=np.array([0, 2, 3, 5]),
    tids=np.arange(1, 6, dtype=np.int32),
    final_graph=LATTICE.final_graph,
    final_acoustic=LATTICE.final_acoustic,
    final_tid_offsets=np.array([0, 0, 0, 1]),
    final_tids=np.array([9], np.int32),
)
WORD_LATTICES = [("u1", WORD_LATTICE), ("u2", WORD_LATTICE)]


@dataclass(frozen=True)
class Format:
    """How a small sound file is made, and how it is read to its end."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    share: float = 1.0  # of the inputs that others get: where reading one takes long


def compressed(method: int) -> Callable[[Path], None]:
    return lambda path: kaldiio.save_ark(str(path), dict(MATRICES), compression_method=method)


def doubles(path: Path) -> None:
    kaldiio.save_ark(str(path), dict(MATRICES))


def text_matrices(path: Path) -> None:
    kaldiio.save_ark(str(path), dict(MATRICES), text=True)


def alignments(path: Path) -> None:
    write_int_vectors([("utt1", np.arange(30)), ("utt2", np.arange(20))], path)


def index(path: Path) -> None:
    write_matrices(MATRICES, path.with_name("indexed.ark"), path)


def fst(kind: str) -> Callable[[Path], None]:
    small = Fst(
        start=0,
        final=np.array([np.inf, 0, 1], np.float32),
        offsets=np.array([0, 2, 3, 3]),
        ilabel=np.array([1, 2, 0], np.int32),
        olabel=np.array([3, 0, 0], np.int32),
        weight=np.array([0.5, 1, 0], np.float32),
        nextstate=np.array([1, 0, 2], np.int32),
    )
    return lambda path: write_fst(small, path, kind)


def fst_with_symbols(path: Path) -> None:
    table = struct.pack("<ii1sqq", 2125658996, 1, b"t", 2, 2)
    table += struct.pack("<i5sq", 5, b"<eps>", 0) + struct.pack("<i1sq", 1, b"a", 1)
    raw = struct.pack("<ii6si8s", 2125659606, 6, b"vector", 8, b"standard")
    raw += struct.pack("<iiQqqq", 2, 3, 3, 0, 1, 0) + table + table
    path.write_bytes(raw + struct.pack("<fq", 0, 0))


def exhaust(reader: Callable) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        for _ in reader(path):
            pass

    return read


def scp_entries(path: Path) -> None:
    read_scp(path)
    exhaust(iter_matrices)(path)


def checkpoint(path: Path) -> None:
    """Write a run of one file more."""
    plan = {"inputs": 3, "outputs": [4], "units": [2]}
    torch.manual_seed(0)
    content = {
        "architecture": plan,
        "model": AcousticModel(**upgrade_architecture(plan)).state_dict(),
        "mean": torch.zeros(3),
        "deviation": torch.ones(3),
        "log_priors": torch.zeros(4, dtype=torch.float64),
    }
    save(path, content)
    path.with_name("config.yaml").write_text("seed: 1\n")


def their_network(path: Path) -> None:
    """Write a network of pytorch-kaldi, as PyTorch did before 1.6."""
    tensors = {"wx.0.weight": torch.ones(4, 3), "wx.0.bias": torch.zeros(4)}
    content = {"model_par": OrderedDict(tensors), "optimizer_par": {"lr": 0.1}}
    torch.save(content, path, _use_new_zipfile_serialization=False)


def topology(path: Path) -> None:
    """Write the topology of a lang folder."""
    write_topology(build_topology([2, 3], [1]), path)


def network(path: Path) -> None:
    """Load the run of a checkpoint, and use it."""
    load_run(path.parent)(np.ones((2, 3), np.float32))


def scores(path: Path) -> None:
    scored = score_utterances(Reference({"u-1": ["a", "b"]}), {"u-1": ["a"]}, "hyp", "sclite")
    score = Score(
        set="test",
        metric="wer",
        convention="plain",
        optional=frozenset(),
        costs="sclite",
        lm_weight=2.0,
        insertion_penalty=0.0,
        utterances=scored,
    )
    write_scores([score], path)


def counts(path: Path) -> None:
    read_counts(path, 3)


def phone_map(path: Path) -> None:
    read_phone_map(path, 1)


def riff(path: Path) -> None:
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16000)
        sound.writeframes(bytes(range(100)))


def sound_of(form: str) -> Callable[[Path], None]:
    """Write a tone of a fifth of a second as libsndfile does."""

    def write(path: Path) -> None:
        tone = np.sin(0.2 * np.arange(3200)) / 2
        soundfile.write(path, tone, 16000, format=form.upper())

    return write


def gmm(path: Path) -> None:
    one = np.ones((3, 2), np.float32)
    mixtures = Mixtures(np.array([0, 2, 3]), np.float32([0.5, 0.5, 1]), one, one)
    write_gmm(build_monophone_model([1], 2), mixtures, path)


def sphere(path: Path) -> None:
    fields = "sample_count -i 50\nsample_rate -i 16000\nchannel_count -i 1\nsample_n_bytes -i 2\n"
    head = f"NIST_1A\n   1024\n{fields}sample_byte_format -s2 01\nend_head\n"
    path.write_bytes(head.encode().ljust(1024) + bytes(range(100)))


FORMATS = [
    Format("float.ark", lambda path: write_matrices(MATRICES, path), exhaust(iter_matrices)),
    Format("float.ark.gz", lambda path: write_matrices(MATRICES, path), exhaust(iter_matrices)),
    Format("double.ark", doubles, exhaust(iter_matrices)),
    Format("cm.ark", compressed(2), exhaust(iter_matrices)),
    Format("cm2.ark", compressed(3), exhaust(iter_matrices)),
    Format("cm3.ark", compressed(5), exhaust(iter_matrices)),
    Format("text.ark", text_matrices, exhaust(iter_matrices)),
    Format("feats.scp", index, scp_entries),
    Format("ali.1", alignments, exhaust(iter_int_vectors)),
    Format("ali.1.gz", alignments, exhaust(iter_int_vectors)),
    Format(
        "ali.txt", lambda path: path.write_bytes(b"u1 1 2 3\nu2 4 5\n"), exhaust(iter_int_vectors)
    ),
    Format(
        "final.mdl",
        lambda path: write_transition_model(build_monophone_model([1, 2]), path),
        read_transition_model,
    ),
    Format("final.txt", lambda path: path.write_bytes(MDL_TEXT), read_transition_model),
    Format("gmm.mdl", gmm, read_gmm),
    Format("gmm.txt", lambda path: path.write_bytes(MDL_TEXT + GMM_TEXT), read_gmm),
    Format(
        "tree", lambda path: write_tree(build_monophone_tree({1: [0, 1], 2: [2]}), path), read_tree
    ),
    Format("tree.txt", lambda path: path.write_bytes(TREE_TEXT), read_tree),
    Format("const.fst", fst("const"), read_fst),
    Format("vector.fst", fst("vector"), read_fst),
    Format("symbols.fst", fst_with_symbols, read_fst),
    Format("text", lambda path: path.write_text("u1 a b\nu2 ü\n"), read_text),
    Format("utt2spk", lambda path: path.write_text("u1 a\nu2 b\n"), read_mapping),
    Format("topo", topology, read_topology),
    Format("theirs.pkl", their_network, read_weights),
    Format("words.txt", lambda path: path.write_text("a 0\nb 1\n"), read_symbols),
    Format("state.lat", lambda path: write_lattices(LATTICES, path), exhaust(iter_lattices)),
    Format("word.lat", lambda path: write_lattices(WORD_LATTICES, path), exhaust(iter_lattices)),
    Format("lat.1.gz", lambda path: write_lattices(WORD_LATTICES, path), exhaust(iter_lattices)),
    Format(
        "counts", lambda path: path.write_text(" [ 12.5 3.5 0 ]\n"), lambda p: read_counts(p, 3)
    ),
    Format("config.yaml", lambda path: path.write_text(YAML), lambda path: load([path]), share=0.3),
    Format("lm.arpa", lambda path: path.write_text(ARPA), read_arpa),
    Format("lexicon.txt", lambda path: path.write_text("a b c\nd e\nsil sil\n"), read_lexicon),
    Format("lexiconp.txt", lambda path: path.write_text("a 0.5 b\na 1 c\n"), read_lexicon),
    Format("ref.stm", lambda path: path.write_text(STM), read_stm),
    Format("hyp.ctm", lambda path: path.write_text("r 1 0.5 0.25 hello 0.9\n"), read_ctm),
    Format("phones.map", lambda path: path.write_text("aa aa a\nao aa a\nq\n"), phone_map),
    Format("score.json", scores, read_scores),
    Format("best.pt", checkpoint, network),
    Format("sound.wav", riff, read_audio),
    Format("sound.sph", sphere, read_audio),
    *(
        Format(f"sound.{form}", sound_of(form), read_audio)
        for form in ("aiff", "flac", "ogg", "mp3")
    ),
]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut, flip bits, forge a number, insert a word, remove or repeat a piece; up to 3 times."""
    raw = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(raw) + 1), rng.randint(1, 12)
        match rng.randrange(8):
            case 0:
                del raw[at:]
            case 1 | 2 if at < len(raw):
                raw[at] ^= 1 << rng.randrange(8)
            case 3:
                raw[at : at + 4] = struct.pack("<i", rng.choice(EXTREMES))
            case 4:
                del raw[at : at + length]
            case 5 | 6:
                raw[at : at + rng.choice((0, length))] = rng.choice(WORDS)
            case _:
                raw[at:at] = raw[at : at + length]
    return bytes(raw)


def damaged_within(content: bytes, rng: random.Random) -> bytes:
    """Damage what is below the check sums, which see all else: of torch.save the pickle."""
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(damaged(gzip.decompress(content), rng))
    remade = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(remade, "w") as new:
        names = old.namelist()
        target = names[0] if names[0].endswith("data.pkl") else rng.choice(names)
        for name in names:
            raw = old.read(name)
            new.writestr(name, damaged(raw, rng) if name == target else raw)
    return remade.getvalue()


def inputs(form: Format, sound: bytes, seed: int, rounds: int) -> Iterator[bytes]:
    """Damaged files of a format: `rounds` of them by a seed."""
    rng = random.Random(f"{form.name} {seed}")
    packed = sound[:2] in (b"\x1f\x8b", b"PK")
    for number in range(round(rounds * form.share)):
        yield (damaged_within if packed and number % 2 else damaged)(sound, rng)


def truncated(sound: bytes) -> Iterator[bytes]:
    """A file cut at each of its bytes."""
    return (sound[:size] for size in range(len(sound)))


class HangError(BaseException):
    """An input took longer than it may."""


@contextmanager
def watched() -> Iterator[None]:
    """Raise HangError after SECONDS of this process's time."""

    def stop(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass
class Found:
    """What reading damaged files came to; peak: most bytes held for one of them."""

    read: int = 0
    refused: int = 0
    peak: int = 0


def read_all(form: Format, folder: Path, contents: Iterator[bytes]) -> Found:
    """Read damaged files; whatever but InputError they raise escapes, with the file in place."""
    path, found = folder / form.name, Found()
    tracemalloc.start()
    try:
        for content in contents:
            path.write_bytes(content)
            tracemalloc.reset_peak()
            try:
                with watched():
                    form.read(path)
            except InputError as error:
                found.refused += 1
                assert_readable(str(error), form.name)
            found.read += 1
            found.peak = max(found.peak, tracemalloc.get_traced_memory()[1])
            assert found.peak < MEMORY
    finally:
        tracemalloc.stop()
    return found


def assert_readable(message: str, name: str) -> None:
    """One line that names the file, or for an index the archive that it points to."""
    assert message == printable(message)
    assert len(message) < 1000
    assert name in message or name in ("feats.scp", "config.yaml")


def sound_file(form: Format, folder: Path) -> bytes:
    """Write a sound file and read it."""
    form.write(folder / form.name)
    form.read(folder / form.name)
    return (folder / form.name).read_bytes()
