"""One look at every frame of a set, before it is trained on."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayes_asr.base.log import LOGGER
from bayes_asr.base.progress import follow
from bayes_asr.data.corpus.index import Arrays, Index, NotKeptError, hash_choice, name_of, state_of
from bayes_asr.data.corpus.labelled import LabelledSet
from bayes_asr.data.features.front_end import Normalisation


@dataclass(frozen=True)
class Survey:
    """Statistics of all utterances of a set, by one stream of features.

    digest: a hash of the features as they are stored.
    """

    normalisation: Normalisation
    digest: str


def survey_stream(
    name: str, data: LabelledSet, stream: str, hashes: Mapping[str, str], index: Index, *, new: bool
) -> Survey:
    """Survey a stream of the set `name`, or take what the index has of it.

    All its features are read, which finds what is wrong with them: InputError names the first
    utterance that is not as its labels or not finite. hashes: the fingerprints of the
    stream. new: do not trust the commands of an scp to print what they did.
    """
    features = data.streams[stream]
    labelled = [part.directory for part in data.first_labels.parts]
    # Other labels, utterances or preparation are another entry, so that both are kept.
    what = (hash_choice(data.lengths), features.front_end.preparation)
    key = name_of(*features.directories, *labelled, *what)
    made_from = {
        **hashes,
        **{f"{path} (times)": state_of(path) for path in features.archives},
        "preparation": features.front_end.preparation,
    }

    def make(_: Path) -> Arrays:
        survey = _read(name, data, stream)
        return {
            "mean": survey.normalisation.mean,
            "deviation": survey.normalisation.deviation,
            "digest": np.array(survey.digest),
        }

    def use(_: Path, arrays: Arrays) -> Survey:
        normalisation = Normalisation(arrays["mean"], arrays["deviation"])
        return Survey(normalisation, str(arrays["digest"]))

    # A command may print other frames though its text, which the index compares, is the same.
    if new and features.piped:
        return _read(name, data, stream)
    try:
        return index.of(f"{name}-{key}", made_from, make, use)
    except NotKeptError as error:
        LOGGER.warning("what is found in %s is not kept: %s", features.directories[0], error)
        return _read(name, data, stream)


def _read(name: str, data: LabelledSet, stream: str) -> Survey:
    """Look at all frames; at the lengths of all utterances first, which is done in seconds."""
    data.check()
    LOGGER.info("reading all features of %d %s utterances", len(data.lengths), name)
    total = hashlib.sha256()  # twice as fast as blake2b where the processor has instructions for it

    def matrices() -> Iterator[np.ndarray]:
        for utt in follow(data.lengths, f"reading {name}"):
            stored = data.read(utt, stream)
            # The name and the length part the bytes of one utterance from those of the next.
            total.update(f"{utt} {len(stored)} ".encode())
            total.update(stored.data)
            yield data.streams[stream].prepare(utt, stored)

    return Survey(Normalisation.of(matrices()), total.hexdigest())
