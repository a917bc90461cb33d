"""Loading of batches: utterances are read, perturbed and packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayes_asr.base.processes import group
from bayes_asr.data.corpus.batches import find_piece, utterance_key
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.features.augmentation import Masks, perturb
from bayes_asr.data.features.front_end import FrontEnd
from bayes_asr.nn.frames import CPU, END, DecoderTargets, PackedFrames, pack, to_device
from bayes_asr.train.batch import Batch, empty_batch

TEACHER_FORCING = 1  # keeps these random numbers apart from those of the features


@dataclass(frozen=True)
class Loader:
    """Reads, perturbs and packs this process' utterances of a batch.

    front_ends: of each stream; targets: names of those to read.
    lengths: frames of the utterances, and pieces of such (`cut_pieces`), that it is asked for; None
    for those of the data.
    noise, tempo: see `perturb`; masks: of SpecAugment, applied after them. Their random numbers
    depend on (seed, epoch, utterance) only. shifts: the output stride of the network; where it is
    more than 1, an utterance is shifted by another number of frames in each epoch.
    teacher_forcing: share of the labels that a decoder reads as they are, drawn likewise.
    speakers: numbers of those who have activations of their own, by name, or nothing.
    keep: type of the normalised features held in memory, if not `none`: float32 or float16.
    device: of the batch; a GPU gets it while it computes another one.
    """

    data: LabelledSet
    front_ends: Mapping[str, FrontEnd]
    targets: Sequence[str]
    seed: int
    epoch: int
    lengths: Mapping[str, int] | None = None
    noise: float = 0.0
    tempo: float = 0.0
    masks: Masks | None = None
    shifts: int = 1
    teacher_forcing: float = 1.0
    speakers: Mapping[str, int] = field(default_factory=dict)
    keep: str = "none"
    device: torch.device = CPU

    def __call__(self, utterances: list[str]) -> Batch:
        """The batch of these utterances, as far as they are this process'."""
        utterances = group.take_share(utterances, self.lengths or self.data.lengths)
        decoded = [name for name in self.targets if self.data.targets[name].per == "sequence"]
        if not utterances:
            sizes = {name: self.front_ends[name].size for name in self.data.streams}
            empty = empty_batch(sizes, self.targets, self.device)
            return replace(
                empty,
                decoder_targets=DecoderTargets(empty.keys_B, empty.frames, []) if decoded else None,
            )
        keys = [utterance_key(self.seed, self.epoch, utt) for utt in utterances]
        examples = [self._read(utt, key) for utt, key in zip(utterances, keys, strict=True)]
        packed = {
            name: pack([streams[name] for streams, _ in examples]) for name in self.data.streams
        }
        # All streams have the same lengths, and so one order: utterances by falling length.
        _, frames, order = next(iter(packed.values()))
        targets = {
            name: self._pack_target(name, [labels[name] for _, labels in examples], order)
            for name in self.targets
            if name not in decoded
        }
        decoder_targets = None
        for name in decoded:
            decoder_targets = self._pack_decoder_targets(
                [labels[name] for _, labels in examples], order, keys
            )
            targets[name] = decoder_targets.labels_N
        return Batch(
            {name: to_device(x_NF, self.device) for name, (x_NF, _, _) in packed.items()},
            PackedFrames(frames.lengths, self.device),
            targets,
            to_device(torch.tensor(keys)[order], self.device),
            decoder_targets,
            to_device(self._number_speakers(utterances)[order], self.device)
            if self.speakers
            else None,
        )

    def _number_speakers(self, names: list[str]) -> Tensor:
        """The number of the speaker of each utterance or piece."""
        speaker_of = self.data.features.speakers
        return torch.tensor([self.speakers[speaker_of[find_piece(name)[0]]] for name in names])

    def _read(self, name: str, key: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Perturbed features [T, F] and labels [T] or [1] of an utterance or piece, by name."""
        utt, span = find_piece(name)
        streams = self._normalise(utt)
        frames = len(next(iter(streams.values())))
        # Each stream is brought to the frame rate of the first one.
        matrices = [
            self.front_ends[stream].spread(x, frames)[span] for stream, x in streams.items()
        ]
        if self.shifts > 1:
            matrices = [self._shift(x, utt) for x in matrices]
        perturbed, nearest = perturb(matrices, key, noise=self.noise, tempo=self.tempo)
        if self.masks:
            bands = {stream: self.front_ends[stream].stored_size for stream in streams}
            perturbed = self.masks(perturbed, bands, key)
        labels: dict[str, Any] = {}
        for target_name in self.targets:
            target = self.data.targets[target_name]
            all_labels = target.labels(utt)
            if target.per == "value":
                labels[target_name] = all_labels
                continue
            # A change of tempo resamples the frames; each takes the label of the nearest one.
            aligned = all_labels[span][nearest] if target.per == "frame" else all_labels
            numbers = torch.from_numpy(aligned)
            labels[target_name] = numbers if target.is_real else numbers.long()
        return dict(zip(streams, map(torch.from_numpy, perturbed), strict=True)), labels

    def _shift(self, x_TF: np.ndarray, utt: str) -> np.ndarray:
        """Frames [T, F] shifted in time by less than `shifts`, another number in each epoch.

        The first or last frame is repeated. Kaldi: ShiftChainExampleTimes.
        """
        # `turn` passes through 0 ... shifts - 1; its upper half stands for negative shifts.
        turn = (utterance_key(self.seed, 0, utt) + self.epoch) % self.shifts
        shift = turn - self.shifts if 2 * turn >= self.shifts else turn
        shifted: np.ndarray = x_TF[(np.arange(len(x_TF)) - shift).clip(0, len(x_TF) - 1)]
        return shifted

    def _normalise(self, utt: str) -> dict[str, np.ndarray]:
        """Normalised features [T_s, F] by stream, from memory where they are held there."""
        if utt in self.data.cache:
            cached = self.data.cache[utt]
            return {name: x.astype(np.float32, copy=False) for name, x in cached.items()}
        streams = {
            name: self.front_ends[name].normalise(matrix)
            for name, matrix in self.data.prepare(utt).items()
        }
        if self.keep == "none":
            return streams
        self.data.cache[utt] = {name: x.astype(self.keep) for name, x in streams.items()}
        return self._normalise(utt)  # from memory: the first epoch has the rounded values, too

    def _pack_target(self, name: str, labels: list[Any], order: list[int]) -> Any:
        """Labels of a batch, of its frames [N] or of its utterances [B]; or the values of these."""
        per = self.data.targets[name].per
        if per == "value":
            return [labels[place] for place in order]
        return to_device(
            pack(labels)[0] if per == "frame" else torch.cat(labels)[order], self.device
        )

    def _pack_decoder_targets(
        self, labels: list[Tensor], order: list[int], keys: list[int]
    ) -> DecoderTargets:
        """Labels and END of each utterance, packed; order: the places of these in the batch."""
        end = torch.tensor([END])
        packed, steps, by_length = pack([torch.cat((labels[index], end)) for index in order])
        forced = None
        if self.teacher_forcing < 1:
            draws = [self._draw_forced(keys[index], len(labels[index]) + 1) for index in order]
            forced = to_device(pack(draws)[0], self.device)
        steps = PackedFrames(steps.lengths, self.device)
        return DecoderTargets(to_device(packed, self.device), steps, by_length, forced)

    def _draw_forced(self, key: int, count: int) -> Tensor:
        """Mask [count] of the labels that are forced, by the key of the utterance."""
        # NumPy wants seeds of 0 or more, but keys are signed.
        uniform = np.random.default_rng((key % 2**64, TEACHER_FORCING)).random(count)
        return torch.from_numpy(uniform < self.teacher_forcing)
