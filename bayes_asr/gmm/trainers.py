"""The passes of Kaldi's train_mono.sh, train_deltas.sh, train_lda_mllt.sh and train_sat.sh."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial, reduce
from itertools import islice
from operator import add
from typing import cast

import numpy as np

from bayes_asr.base.files import discard, is_there
from bayes_asr.base.log import LOGGER
from bayes_asr.base.shards import Mapper
from bayes_asr.gmm import jobs
from bayes_asr.gmm.affine import compose
from bayes_asr.gmm.alignment import ALIGN_SI
from bayes_asr.gmm.features import (
    JobInputs,
    Pipeline,
    find_transforms,
    has_transforms,
    read_pipeline,
    read_transforms,
    write_pipeline,
    write_transforms,
)
from bayes_asr.gmm.files import MATRIX, MODEL, PIPELINE, TRANSFORMS, TREE_FILES, UNADAPTED
from bayes_asr.gmm.first_model import Converter, derive_transitions, init_mixtures
from bayes_asr.gmm.gaussian_sums import Statistics, estimate
from bayes_asr.gmm.jobs import LoadedInputs
from bayes_asr.gmm.lda import estimate_lda
from bayes_asr.gmm.mixing import mix_up
from bayes_asr.gmm.mllt import estimate_mllt, transform_means
from bayes_asr.gmm.monophones import init_monophones
from bayes_asr.gmm.questions import cluster_phones, compile_questions, read_phone_sets
from bayes_asr.gmm.randomness import Random
from bayes_asr.gmm.resumable import (
    ALIGNMENTS,
    Aligned,
    Dependencies,
    PhaseRunner,
    StepFolders,
    share_frames,
)
from bayes_asr.gmm.roots import read_roots
from bayes_asr.gmm.schedule import Kind, TrainingSchedule
from bayes_asr.gmm.splitting import TreeOptions, build_tree
from bayes_asr.gmm.transitions import update_transitions
from bayes_asr.gmm.tree_statistics import Context, sum_tree_stats
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.gmm import read_gmm, write_gmm
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.jobs import find_alignments
from bayes_asr.kaldi_io.mdl import read_topology, read_transition_model
from bayes_asr.kaldi_io.qst import write_questions
from bayes_asr.kaldi_io.text import write_lines
from bayes_asr.kaldi_io.transition_model import Topology
from bayes_asr.kaldi_io.tree import read_tree, write_tree

FIRST_UTTERANCES = 10  # whose mean and variance monophones begin with
FIRST_POWER = 0.2  # of the first splitting, in which gmm-mixup is left to itself
MIN_OCCUPANCY = 10.0  # frames that a Gaussian wants
MAX_SKIPPED = 0.5  # of the utterances: more have transcripts of other recordings
INITIAL_MIN_OCCUPANCY = 3.0  # in the first estimation, so that rare phones get a Gaussian
RESULTS: Mapping[Kind, Sequence[str]] = {"lda-mllt": [MATRIX], "sat": [TRANSFORMS, UNADAPTED]}


@dataclass(frozen=True)
class TrainingSummary:
    """Results of a training; log_likelihood: per frame, of the model before the last estimation."""

    pdfs: int
    gaussians: int
    frames: int
    log_likelihood: float


class GmmTrainer(PhaseRunner):
    """A training of Gaussian mixtures in the folder `out`: its phases, each a method.

    Writes what Kaldi's script of that name writes: final.mdl, tree, ali.1.gz, phones.txt, and as it
    needs final.mat, full.mat, trans.1, final.alimdl.
    """

    def __init__(
        self,
        schedule: TrainingSchedule,
        folders: StepFolders,
        mapper: Mapper,
        *,
        max_skipped: float = MAX_SKIPPED,
        open_pipe: OpenPipe | None = None,
    ) -> None:
        """Begin, or go on with what is there.

        The source has the alignments to begin with, and the model that made them.
        mapper: applies a function to shares of the data; the result does not depend on it.
        Utterances that cannot be aligned are named; InputError if they are a larger share than
        `max_skipped`, for inputs that do not fit, and where `out` holds a model of another program.
        """
        self.schedule = schedule
        copied = [MATRIX] if schedule.kind == "sat" and is_there(folders.initial / MATRIX) else []
        self.results = [*self.results, *RESULTS.get(schedule.kind, ()), *copied]
        # The hash of these files tells whether a training in `out` can go on (`progress`).
        alignments = folders.source
        required, optional = [folders.lang / name for name in TREE_FILES], []
        if alignments:
            required += [alignments / MODEL, *find_alignments(alignments)]
            optional = [alignments / name for name in PIPELINE]
            if has_transforms(alignments):
                optional += find_transforms(alignments)
        super().__init__(
            folders,
            mapper,
            Dependencies(asdict(schedule), required, optional),
            max_skipped=max_skipped,
            open_pipe=open_pipe,
        )

    def run(self) -> TrainingSummary:
        """Do the phases that are not complete, and return the summary of all."""
        self.run_phases(
            self.schedule.phases(),
            {
                "prepare": self.prepare,
                "lda": self.estimate_lda,
                "transforms": self.init_transforms,
                "initialise": self.initialise,
                "tree": self.grow_tree,
                "convert": self.convert,
                "compile": self.compile,
                "align equal": self.align_equal,
                "align": self.realign,
                "mllt": self.estimate_mllt,
                "fmllr": self.estimate_fmllr,
                "estimate": self.estimate,
                "alimdl": self.estimate_alimdl,
                "finish": self.finish,
            },
        )
        transitions, mixtures = read_gmm(self.out / MODEL)
        return TrainingSummary(
            transitions.num_pdfs,
            mixtures.num_gaussians,
            self.progress.frames,
            self.progress.log_likelihoods[-1],
        )

    @cached_property
    def topology(self) -> Topology:
        """The topology of the lang folder."""
        return read_topology(self.lang / "topo")

    def iter_source_alignments(self) -> Iterator[Aligned]:
        """The alignments of the source folder, then `count_skipped` of utterances without one."""
        utterances: set[str] = set()
        for utt, tids in self.iter_aligned(self.source, self.source / MODEL):
            utterances.add(utt)
            yield utt, tids
        self.count_skipped(utterances, f"no alignment in {self.source} of {self.data}")

    def prepare(self, _: int) -> None:
        """Write the options of the features: cepstra and their derivatives."""
        with self.commit_phase():
            write_pipeline(Pipeline(), self.out)

    def initialise(self, _: int) -> None:
        """Make monophones of one Gaussian for each state, all of them alike (gmm-init-mono)."""
        features = LoadedInputs(self.job_inputs()).features
        spoken = islice(filter(features.has_frames, features.utterances), FIRST_UTTERANCES)
        initial = (features[utt] for utt in spoken)
        sets = read_phone_sets(self.lang / "phones/sets.int")
        tree, transitions, mixtures = init_monophones(self.topology, sets, initial, self.data)
        self.progress.initial_gaussians = mixtures.num_gaussians
        with self.commit_phase():
            write_tree(tree, self.out / "tree")
            write_gmm(transitions, mixtures, self.model)

    def estimate_lda(self, _: int) -> None:
        """Estimate LDA of spliced frames."""
        spliced = Pipeline.spliced(self.schedule.left_context, self.schedule.right_context)
        inputs = replace(self.job_inputs(self.source, self.source / MODEL), pipeline=spliced)
        classes = partial(jobs.sum_lda, inputs)
        total = reduce(add, self.mapper(classes, share_frames(self.iter_source_alignments())))
        matrix, full = estimate_lda(total, self.schedule.dimensions)
        with self.commit_phase():
            write_pipeline(replace(spliced, matrix=matrix, full=full), self.out)

    def init_transforms(self, _: int) -> None:
        """Read the transforms of the source alignments, or estimate them by their model."""
        if has_transforms(self.source):
            transforms = read_transforms(self.source)
        else:
            inputs = self.job_inputs(self.source, self.source / MODEL)
            transforms = dict(self.adapt_speakers(inputs, self.iter_source_alignments()))
        with self.commit_phase():
            write_pipeline(read_pipeline(self.source), self.out)
            write_transforms(transforms.items(), self.out)

    def grow_tree(self, _: int) -> None:
        """Grow the tree of triphones, and make a model of one Gaussian for each leaf."""
        schedule = self.schedule
        independent = self.read_phones("context_indep")
        # Statistics of the new features, by the alignments and phones of the previous model.
        context = Context(schedule.context_width, schedule.central_position, independent)
        events = partial(jobs.sum_tree, context, self.job_inputs(model=self.source / MODEL))
        statistics = sum_tree_stats(
            self.mapper(events, share_frames(self.iter_source_alignments()))
        )
        sets = read_phone_sets(self.lang / "phones/sets.int")
        phone_sets = cluster_phones(statistics, sets, Random())
        phone_sets += read_phone_sets(self.lang / "phones/extra_questions.int")
        questions = compile_questions(phone_sets, self.topology, context.width)
        tree = build_tree(
            statistics,
            questions,
            read_roots(self.lang / "phones/roots.int"),
            self.topology,
            TreeOptions(schedule.leaves, cluster_threshold=schedule.cluster_threshold),
        )
        transitions = derive_transitions(tree, self.topology)
        mixtures, frames = init_mixtures(tree, statistics)
        # Of the scripts, train_deltas.sh alone calls gmm-mixup here.
        if schedule.kind == "deltas":
            mixtures = mix_up(mixtures, frames, schedule.leaves, power=FIRST_POWER)
        # Kaldi counts the increments from --numleaves, whatever the tree has.
        self.progress.initial_gaussians = schedule.leaves
        with self.commit_phase():
            write_lines(
                (" ".join(map(str, phones)) for phones in phone_sets), self.out / "questions.int"
            )
            write_questions(questions, self.out / "questions.qst")
            write_tree(tree, self.out / "tree")
            write_gmm(transitions, mixtures, self.model)

    def convert(self, _: int) -> None:
        """Convert the source alignments to the transition-ids of the new tree (convert-ali)."""
        old = read_transition_model(self.source / MODEL)
        new = read_transition_model(self.model)
        converter = Converter(old, new, read_tree(self.out / "tree"))
        converted = (
            (utt, converter.convert_alignment(utt, tids))
            for utt, tids in self.iter_source_alignments()
        )
        with self.commit_phase():
            write_int_vectors(converted, self.out / ALIGNMENTS)

    def compile(self, _: int) -> None:
        """Compile the graphs of all transcripts."""
        self.compile_graphs(partial(jobs.compile_graphs, self.lang, self.job_inputs()))

    def align_equal(self, _: int) -> None:
        """Align for the first time, each state as long as the others (align-equal-compiled)."""
        self.align_graphs(partial(jobs.align_equal, self.job_inputs()))

    def realign(self, number: int) -> None:
        """Align by the model of this pass."""
        schedule = self.schedule
        options = replace(ALIGN_SI, beam=schedule.beam_at(number), retry_beam=schedule.retry_beam)
        boost, inputs = schedule.boost_silence, self.job_inputs()
        self.align_graphs(partial(jobs.align, options, boost, self.pauses, inputs))

    def estimate_mllt(self, _: int) -> None:
        """Estimate MLLT on top of the present matrix, and rotate the means with it."""
        scatters = partial(jobs.sum_mllt, self.job_inputs())
        matrix = estimate_mllt(
            reduce(add, self.mapper(scatters, share_frames(self.iter_aligned())))
        )
        pipeline = read_pipeline(self.out)
        transitions, mixtures = read_gmm(self.model)
        lda = cast(np.ndarray, pipeline.matrix)  # the phase "lda" has written it
        with self.commit_phase():
            write_pipeline(replace(pipeline, matrix=compose(matrix, lda)), self.out)
            write_gmm(transitions, transform_means(mixtures, matrix), self.model)

    def adapt_speakers(
        self, inputs: JobInputs, aligned: Iterable[Aligned]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Transforms of all speakers by their alignments."""
        return self.mapper(partial(jobs.estimate_fmllr, None, inputs), self.group_speakers(aligned))

    def estimate_fmllr(self, _: int) -> None:
        """Estimate fMLLR transforms of the speakers, on top of their present ones."""
        transforms = read_transforms(self.out)
        for speaker, transform in self.adapt_speakers(self.job_inputs(), self.iter_aligned()):
            # The statistics are of adapted features: the new transform follows the present one.
            previous = transforms.get(speaker)
            transforms[speaker] = (
                transform if previous is None else compose(transform, previous, affine=True)
            )
        with self.commit_phase():
            write_transforms(transforms.items(), self.out)

    def estimate(self, number: int) -> None:
        """Estimate the model from the alignments, and split Gaussians."""
        total, counts = self.sum_statistics(jobs.sum_gmm)
        transitions, mixtures = read_gmm(self.model)
        # gmm-est mixes up by the occupancies of the statistics, not by those of the new model.
        occupancies = total.pdf_occupancy
        min_occupancy = INITIAL_MIN_OCCUPANCY if number == 0 else MIN_OCCUPANCY
        mixtures = estimate(mixtures, total, min_occupancy=min_occupancy)
        target = self.schedule.target_gaussians(number, self.progress.initial_gaussians)
        mixtures = mix_up(mixtures, occupancies, target, power=self.schedule.power)
        if number:  # pass 0 has equal alignments, whose likelihood means nothing
            self.progress.frames = int(total.frames)
            self.progress.log_likelihoods.append(total.log_likelihood_per_frame)
            LOGGER.info(
                "pass %d of %d: log-likelihood a frame %.4f, now %d Gaussians",
                number,
                self.schedule.passes,
                total.log_likelihood_per_frame,
                mixtures.num_gaussians,
            )
        with self.commit_phase():
            write_gmm(update_transitions(transitions, counts), mixtures, self.model)
            write_lines(
                [f"[ {' '.join(map(repr, occupancies.tolist()))} ]"], self.out / "final.occs"
            )

    def estimate_alimdl(self, _: int) -> None:
        """Make the model that aligns unadapted features, with the same Gaussians."""
        # gmm-acc-stats-twofeats; no Gaussian is removed, so that posteriors of both models match.
        total, counts = self.sum_statistics(jobs.sum_alimdl)
        transitions, mixtures = read_gmm(self.model)
        with self.commit_phase():
            write_gmm(
                update_transitions(transitions, counts),
                estimate(mixtures, total, remove=False),
                self.out / UNADAPTED,
            )

    def finish(self, _: int) -> None:
        """Name the model final.mdl, and copy the table of phones."""
        with self.commit_phase():
            self.copy(self.model, MODEL)
            self.copy(self.lang / "phones.txt")
            write_lines([1], self.out / "num_jobs")
            discard(self.model)

    def sum_statistics(
        self,
        statistics: Callable[[JobInputs, str, Sequence[Aligned]], tuple[Statistics, np.ndarray]],
    ) -> tuple[Statistics, np.ndarray]:
        """Statistics and counts of transition-ids of all shares."""
        parts = self.mapper(
            partial(statistics, self.job_inputs()), share_frames(self.iter_aligned())
        )
        return reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)
