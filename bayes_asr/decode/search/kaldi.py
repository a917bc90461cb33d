"""The decoder that runs the user's own Kaldi: latgen-faster-mapped and the lattice- programs."""

import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.programs import JOB, find_program, run_jobs
from bayes_asr.decode.lattices.paths import Weights
from bayes_asr.decode.search.graph_dir import load_network
from bayes_asr.decode.search.job import Decoded, DecodeJob, record_without_words
from bayes_asr.decode.search.loading import check_loglikes
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.decode.search.utterances import is_index, read_utterances
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.scp import read_scp
from bayes_asr.kaldi_io.text import read_text, write_mapping

PROGRAMS = (
    "latgen-faster-mapped",
    "lattice-1best",
    "nbest-to-linear",
    "lattice-scale",
    "lattice-add-penalty",
    "lattice-best-path",
)
PARTIAL = re.compile(r"partial output for utterance (\S+)")


@dataclass(frozen=True)
class KaldiDecoder:
    """Decodes with Kaldi's programs, as jobs through `cmd` (see kaldi.run_jobs); logs in `logs`."""

    cmd: str
    logs: Path

    def decode(self, job: DecodeJob, folder: Path) -> Iterator[Decoded]:
        """Decode every utterance, in order, and write lattices as `folder`/lat.N.gz."""
        programs = {name: find_program(name) for name in PROGRAMS}
        network = load_network(job.graph, job.model, job.lm)
        if network.grammar is not None:
            raise InputError(
                f"{network.name}: Kaldi's decoder does not compose with a grammar; take the"
                " embedded backend, or build the graph with its language model"
            )
        frames, errors = check_utterances(job, network)
        inputs, jobs = split_input(job, set(errors), folder)
        self.make_lattices(programs, job, inputs, jobs, folder)
        words, graph, acoustic = self.best_paths(programs, job, folder)
        sweeps = self.sweep(programs, job, folder)
        partial = find_partial_utterances(self.logs, jobs)
        for utt, count in frames.items():
            if utt not in words:
                yield record_without_words(utt, count, job, errors.get(utt, ""))
                continue
            yield Decoded(
                utt,
                count,
                words[utt],
                graph[utt],
                acoustic[utt],
                utt not in partial,
                [sweep[utt] for sweep in sweeps],
            )

    def find_trouble(self) -> str:
        """Say which program of Kaldi, or of `cmd`, is missing; empty if none is."""
        try:
            for name in (*PROGRAMS, *shlex.split(self.cmd)[:1]):
                find_program(name)
        except InputError as error:
            return str(error)
        return ""

    def make_lattices(
        self, programs: dict[str, str], job: DecodeJob, inputs: str, jobs: int, folder: Path
    ) -> None:
        """Run latgen-faster-mapped on each part of the input."""
        options = [
            f"--{name.replace('_', '-')}={getattr(job.options, name)}"
            for name in ("acoustic_scale", "beam", "lattice_beam", "max_active", "min_active")
        ]
        partial = f"--allow-partial={str(job.options.allow_partial).lower()}"
        output = f"ark:|gzip -c > {shlex.quote(str(folder))}/lat.{JOB}.gz"
        graph = str(job.graph / "HCLG.fst")
        latgen = [programs["latgen-faster-mapped"], *options, partial, str(job.model), graph]
        run_jobs([*latgen, inputs, output], jobs, self.logs / f"decode.{JOB}.log", self.cmd)

    def best_paths(
        self, programs: dict[str, str], job: DecodeJob, folder: Path
    ) -> tuple[dict[str, list[int]], dict[str, float], dict[str, float]]:
        """Return words, graph cost and unscaled acoustic cost of the best path of each lattice."""
        scale = f"--acoustic-scale={job.options.acoustic_scale}"
        best = [programs["lattice-1best"], scale, "ark:-", "ark:-"]
        names = [folder / name for name in ("words.int", "graph.txt", "acoustic.txt")]
        outputs = ["ark:/dev/null", *(f"ark,t:{name}" for name in names)]
        command = [programs["nbest-to-linear"], pipe_lattices(folder, best), *outputs]
        run_jobs(command, 1, self.logs / "best_path.log", self.cmd)
        words, graph, acoustic = (read_text(name) for name in names)
        return parse_numbers(words), parse_first_numbers(graph), parse_first_numbers(acoustic)

    def sweep(
        self, programs: dict[str, str], job: DecodeJob, folder: Path
    ) -> list[dict[str, list[int]]]:
        """Return the words of each utterance at each point of the grid."""

        def rescore(weights: Weights) -> dict[str, list[int]]:
            lmwt, wip = weights
            name = f"lmwt{lmwt:g}.wip{wip:g}"
            scale = [programs["lattice-scale"], f"--inv-acoustic-scale={lmwt}", "ark:-", "ark:-"]
            penalty = [programs["lattice-add-penalty"], f"--word-ins-penalty={wip}"]
            lattices = pipe_lattices(folder, scale, [*penalty, "ark:-", "ark:-"])
            found = folder / f"words.{name}.int"
            command = [programs["lattice-best-path"], lattices, f"ark,t:{found}"]
            run_jobs(command, 1, self.logs / f"rescore.{name}.log", self.cmd)
            return parse_numbers(read_text(found))

        with ThreadPoolExecutor(job.nj) as pool:
            return list(pool.map(rescore, job.grid))


def check_utterances(
    job: DecodeJob, network: DecodingGraph
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the frames of each utterance, and what is wrong with those that cannot be decoded."""
    frames, errors = {}, {}
    for utt, loglikes in read_utterances(job.loglikes, network):
        frames[utt] = 0 if isinstance(loglikes, InputError) else len(loglikes)
        try:
            check_loglikes(network, f"{job.loglikes}: {utt}", loglikes)
        except InputError as error:
            errors[utt] = str(error)
    return frames, errors


def split_input(job: DecodeJob, excluded: set[str], folder: Path) -> tuple[str, int]:
    """Return the rspecifier of the input, with JOB for the number of a job, and how many there are.

    An scp is split into contiguous parts.  An archive has no index and is one job; one that Kaldi
    cannot read as it is, or that holds an excluded utterance, is copied.
    """
    if not is_index(job.loglikes):
        if not excluded and job.loglikes.endswith(".ark") and ":" not in job.loglikes:
            return f"ark:{job.loglikes}", 1
        kept = ((u, m) for u, m in iter_matrices(job.loglikes, finite=False) if u not in excluded)
        write_matrices(kept, folder / "loglikes.ark")
        return f"ark:{folder / 'loglikes.ark'}", 1
    table = [item for item in read_scp(Path(job.loglikes)).items() if item[0] not in excluded]
    jobs = max(1, min(job.nj, len(table)))
    bounds = np.linspace(0, len(table), jobs + 1).astype(int).tolist()
    for number in range(jobs):
        part = table[bounds[number] : bounds[number + 1]]
        write_mapping(part, folder / f"loglikes.{number + 1}.scp")
    return f"scp:{folder}/loglikes.{JOB}.scp", jobs


def pipe_lattices(folder: Path, *commands: list[str]) -> str:
    """Return an rspecifier for all lattices of the folder passed through these programs."""
    lattices = f"gunzip -c {shlex.quote(str(folder))}/lat.*.gz"
    return f"ark:{' | '.join([lattices, *(shlex.join(command) for command in commands)])} |"


def parse_numbers(table: dict[str, list[str]]) -> dict[str, list[int]]:
    """Return a table of integers from its text form."""
    return {utt: [int(word) for word in row] for utt, row in table.items()}


def parse_first_numbers(table: dict[str, list[str]]) -> dict[str, float]:
    """Return a table of one number each from its text form."""
    return {utt: float(row[0]) for utt, row in table.items()}


def find_partial_utterances(logs: Path, jobs: int) -> set[str]:
    """Return the utterances of which the logs say that no path reached a final state."""
    found: set[str] = set()
    for job in range(1, jobs + 1):
        log = logs / f"decode.{job}.log"
        if log.exists():
            found |= set(PARTIAL.findall(log.read_text(errors="replace")))
    return found
