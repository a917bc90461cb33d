"""The decoder that runs the user's own Kaldi: latgen-faster-mapped and the lattice- programs."""

import re
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.errors import InputError
from bayes_asr.base.jobs import JOB, run_jobs, split_command
from bayes_asr.base.kaldi_programs import find_program
from bayes_asr.base.programs import explain_failure
from bayes_asr.decode.lattices.paths import Weights
from bayes_asr.decode.search.graph_dir import load_graph
from bayes_asr.decode.search.inputs import check_loglikes
from bayes_asr.decode.search.job import DecodedUtterance, DecodeJob, record_without_words
from bayes_asr.decode.search.loglikes import is_index, read_utterances
from bayes_asr.decode.search.search_graph import DecodingGraph
from bayes_asr.kaldi_io.ark import iter_matrices, read_scp, write_matrices
from bayes_asr.kaldi_io.text import read_text, write_mapping

PROGRAMS = (
    "latgen-faster-mapped",
    "lattice-1best",
    "nbest-to-linear",
    "lattice-scale",
    "lattice-add-penalty",
    "lattice-best-path",
)
MBR_PROGRAM = "lattice-mbr-decode"  # in place of the last one
PARTIAL = re.compile(r"partial output for utterance (\S+)")


@dataclass(frozen=True)
class KaldiDecoder:
    """Decodes with Kaldi's programs, as jobs through `cmd` (`run_jobs`); logs in `logs`."""

    cmd: str
    logs: Path

    def decode(self, job: DecodeJob, scratch: Path) -> Iterator[DecodedUtterance]:
        """Decode every utterance, in order, and write lattices as `scratch`/lat.N.gz."""
        names = (*PROGRAMS, MBR_PROGRAM) if job.mbr else PROGRAMS
        programs = {name: find_program(name) for name in names}
        decoding_graph = load_graph(job)
        if job.hotwords:
            raise InputError(
                f"{job.hotwords}: Kaldi's decoder knows no hotwords; take the embedded backend"
            )
        if decoding_graph.grammar is not None:
            raise InputError(
                f"{decoding_graph.name}: Kaldi's decoder does not compose with a grammar; take the"
                " embedded backend, or build the graph with its language model"
            )
        frames, errors = check_utterances(job, decoding_graph)
        # Kaldi stops at a bad utterance; left out, it costs the others nothing.
        inputs, jobs = split_input(job, set(errors), scratch)
        self.make_lattices(programs, job, inputs, jobs, scratch)
        words, graph, acoustic = self.best_paths(programs, job, scratch)
        sweeps = self.sweep(programs, job, scratch)
        partial = find_partial_utterances(self.logs, jobs)
        for utt, count in frames.items():
            if utt not in words:
                yield record_without_words(utt, count, job, errors.get(utt, ""))
                continue
            yield DecodedUtterance(
                utt,
                count,
                words[utt],
                graph[utt],
                acoustic[utt],
                utt not in partial,
                [sweep[utt] for sweep in sweeps],
            )

    def find_trouble(self) -> str:
        """Say which program of Kaldi, or of `cmd`, is missing or does not start; empty if none."""
        try:
            script = split_command(self.cmd)[:1] if self.cmd else ()
            programs = [find_program(name) for name in (*PROGRAMS, *script)]
        except InputError as error:
            return str(error)
        # A program may be there and lack a library, which shows only when it starts.
        failures = map(explain_failure, programs[: len(PROGRAMS)])
        return next(filter(None, failures), "")

    def make_lattices(
        self, programs: dict[str, str], job: DecodeJob, inputs: str, jobs: int, scratch: Path
    ) -> None:
        """Run latgen-faster-mapped on each part of the input."""
        options = [
            f"--{name.replace('_', '-')}={getattr(job.options, name)}"
            for name in ("acoustic_scale", "beam", "lattice_beam", "max_active", "min_active")
        ]
        # Lattices keep unscaled acoustic costs: latgen undoes its scale before it writes.
        partial = f"--allow-partial={str(job.options.allow_partial).lower()}"
        output = f"ark:|gzip -c > {shlex.quote(str(scratch))}/lat.{JOB}.gz"
        graph = str(job.graph / "HCLG.fst")
        latgen = [programs["latgen-faster-mapped"], *options, partial, str(job.model), graph]
        run_jobs([*latgen, inputs, output], jobs, self.logs / f"decode.{JOB}.log", self.cmd)

    def best_paths(
        self, programs: dict[str, str], job: DecodeJob, scratch: Path
    ) -> tuple[dict[str, list[int]], dict[str, float], dict[str, float]]:
        """Return words, graph cost and unscaled acoustic cost of the best path of each lattice."""
        scale = f"--acoustic-scale={job.options.acoustic_scale}"
        best = [programs["lattice-1best"], scale, "ark:-", "ark:-"]
        names = [scratch / name for name in ("words.int", "graph.txt", "acoustic.txt")]
        outputs = ["ark:/dev/null", *(f"ark,t:{name}" for name in names)]
        command = [programs["nbest-to-linear"], pipe_lattices(scratch, best), *outputs]
        run_jobs(command, 1, self.logs / "best_path.log", self.cmd)
        words, graph, acoustic = (read_text(name) for name in names)
        return parse_numbers(words), parse_first_numbers(graph), parse_first_numbers(acoustic)

    def sweep(
        self, programs: dict[str, str], job: DecodeJob, scratch: Path
    ) -> list[dict[str, list[int]]]:
        """Return the words of each utterance at each point of the grid."""
        reader = programs[MBR_PROGRAM if job.mbr else PROGRAMS[-1]]

        def rescore(weights: Weights) -> dict[str, list[int]]:
            lmwt, wip = weights
            name = f"lmwt{lmwt:g}.wip{wip:g}"
            # The scripts' order (local/score.sh): scale, then penalty, then the words.
            scale = [programs["lattice-scale"], f"--inv-acoustic-scale={lmwt}", "ark:-", "ark:-"]
            penalty = [programs["lattice-add-penalty"], f"--word-ins-penalty={wip}"]
            lattices = pipe_lattices(scratch, scale, [*penalty, "ark:-", "ark:-"])
            output = scratch / f"words.{name}.int"
            command = [reader, lattices, f"ark,t:{output}"]
            run_jobs(command, 1, self.logs / f"rescore.{name}.log", self.cmd)
            return parse_numbers(read_text(output))

        with ThreadPoolExecutor(job.nj) as pool:
            return list(pool.map(rescore, job.grid))


def check_utterances(job: DecodeJob, graph: DecodingGraph) -> tuple[dict[str, int], dict[str, str]]:
    """Return the frames of each utterance, and what is wrong with those that cannot be decoded."""
    frames, errors = {}, {}
    for utt, loglikes in read_utterances(job.loglikes, graph):
        frames[utt] = 0 if isinstance(loglikes, InputError) else len(loglikes)
        try:
            check_loglikes(graph, f"{job.loglikes}: {utt}", loglikes)
        except InputError as error:
            errors[utt] = str(error)
    return frames, errors


def split_input(job: DecodeJob, excluded: set[str], scratch: Path) -> tuple[str, int]:
    """Return the rspecifier of the input, with JOB for the number of a job, and how many there are.

    An scp is split into contiguous parts.  An archive has no index and is one job; one that Kaldi
    cannot read as it is, or that holds an excluded utterance, is copied.
    """
    if not is_index(job.loglikes):
        if not excluded and job.loglikes.endswith(".ark") and ":" not in job.loglikes:
            return f"ark:{job.loglikes}", 1
        matrices = iter_matrices(job.loglikes, finite=False)
        decodable = ((utt, matrix) for utt, matrix in matrices if utt not in excluded)
        write_matrices(decodable, scratch / "loglikes.ark")
        return f"ark:{scratch / 'loglikes.ark'}", 1
    table = [item for item in read_scp(Path(job.loglikes)).items() if item[0] not in excluded]
    jobs = max(1, min(job.nj, len(table)))
    # Contiguous parts of equal sizes, so that lat.1.gz, lat.2.gz, ... are in the input's order.
    bounds = np.linspace(0, len(table), jobs + 1).astype(int).tolist()
    for number in range(jobs):
        part = table[bounds[number] : bounds[number + 1]]
        write_mapping(part, scratch / f"loglikes.{number + 1}.scp")
    return f"scp:{scratch}/loglikes.{JOB}.scp", jobs


def pipe_lattices(scratch: Path, *commands: list[str]) -> str:
    """Return an rspecifier for all lattices of the folder passed through these programs."""
    lattices = f"gunzip -c {shlex.quote(str(scratch))}/lat.*.gz"
    return f"ark:{' | '.join([lattices, *(shlex.join(command) for command in commands)])} |"


def parse_numbers(table: dict[str, list[str]]) -> dict[str, list[int]]:
    """Return a table of integers from its text form."""
    return {utt: [int(word) for word in row] for utt, row in table.items()}


def parse_first_numbers(table: dict[str, list[str]]) -> dict[str, float]:
    """Return a table of one number each from its text form."""
    return {utt: float(row[0]) for utt, row in table.items()}


def find_partial_utterances(logs: Path, jobs: int) -> set[str]:
    """Return the utterances of which the logs say that no path reached a final state."""
    partial: set[str] = set()
    for job in range(1, jobs + 1):
        log = logs / f"decode.{job}.log"
        if log.exists():
            partial |= set(PARTIAL.findall(log.read_text(errors="replace")))
    return partial
