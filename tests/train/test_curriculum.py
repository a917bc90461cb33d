"""What an epoch is trained on: pieces of long utterances, batches by epoch, masks."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_asr.data.corpus.batches import cut_pieces
from bayes_asr.data.corpus.sets import open_set
from bayes_asr.data.features.augmentation import Masks
from bayes_asr.data.features.front_end import Normalisation
from bayes_asr.nn.frames import unpack
from bayes_asr.train import loop
from bayes_asr.train.batch import Batch
from bayes_asr.train.loader import Loader
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import unpack_front_ends
from bayes_asr.train.start import train
from tests.support.training_runs import Killed, assert_same, at_batch, config_of, kill, states
from tests.support.two_streams import BOTH, write_both

OPTIONS = (
    "train.epochs=3",
    "train.tempo=0.1",
    "train.noise=0.1",
    "train.max_frames={1: 10, 2: 15, 3: 0}",
    "train.batch_sequences={1: 6, 3: 2}",
    "train.spec_augment={time_masks: 1, time_width: 5, frequency_masks: 1, frequency_width: 2}",
)


@pytest.fixture(scope="module")
def passes(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The batches of each pass of a run, and what the run has learnt."""
    run = tmp_path_factory.mktemp("curriculum")
    seen: dict[str, Any] = {}
    run_batches = loop.run_batches

    def noted(model: Any, criterion: Any, batches: loop.PassBatches, **more: Any) -> Any:
        seen[batches.title] = list(batches.utterances)
        return run_batches(model, criterion, batches, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_batches", noted)
        train(config_of(small_corpus, *OPTIONS), run)
    return {"run": run, "states": states(run), **seen}


def test_each_epoch_has_every_frame_in_sequences_of_its_length(
    passes: dict[str, Any], small_corpus: Path
) -> None:
    data = open_set(config_of(small_corpus), "train")
    for epoch, most, sequences in ((1, 10, 6), (2, 15, 6), (3, 0, 2)):
        batches = passes[f"epoch {epoch}"]
        names = sorted(name for batch in batches for name in batch)
        expected = cut_pieces(data.lengths, most) if most else data.lengths
        assert names == sorted(expected)
        assert max(map(len, batches)) == sequences
    dev = sorted(name for batch in passes["epoch 1 dev"] for name in batch)
    assert dev == sorted(open_set(config_of(small_corpus), "dev").lengths)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 4, 9, 14])
def test_it_is_resumed_bit_for_bit(
    batch: int, passes: dict[str, Any], small_corpus: Path, tmp_path: Path
) -> None:
    config = config_of(small_corpus, *OPTIONS, f"train.save_minutes={10 * (batch % 2)}")
    with at_batch(batch, kill), suppress(Killed):
        train(config, tmp_path)
    train(config, tmp_path)
    assert_same(states(tmp_path), passes["states"])


def make_loader(passes: dict[str, Any], small_corpus: Path, **how: Any) -> Loader:
    data = open_set(config_of(small_corpus), "train")
    content = checkpoint.read(passes["run"] / "best.pt")["front_ends"]
    return Loader(data, unpack_front_ends(content), ["pdfs"], 1, 1, **how)


def order_of(batch: Batch) -> list[int]:
    """Sequences as they are packed."""
    return list(range(len(batch.frames.lengths)))


def read(loader: Loader, name: str, stream: str = "features") -> tuple[np.ndarray, np.ndarray]:
    batch = loader([name])
    (x,) = unpack(batch.streams[stream], batch.frames, order_of(batch))
    return x.numpy(), batch.targets["pdfs"].numpy()


def test_pieces_hold_the_frames_and_labels_of_their_utterance(
    passes: dict[str, Any], small_corpus: Path
) -> None:
    loader = make_loader(passes, small_corpus)
    pieces = cut_pieces(loader.data.lengths, 7)
    for utt in loader.data.lengths:
        own = [read(loader, name) for name in pieces if name.split()[0] == utt]
        x, labels = read(loader, utt)
        np.testing.assert_array_equal(np.concatenate([x for x, _ in own]), x)
        np.testing.assert_array_equal(np.concatenate([y for _, y in own]), labels)


def test_masks_come_after_noise_and_touch_no_label(
    passes: dict[str, Any], small_corpus: Path
) -> None:
    utt = "train0-0"
    masks = Masks(2, 6, 1.0, 1, 3)
    x, labels = read(make_loader(passes, small_corpus, noise=0.3), utt)
    masked, same = read(make_loader(passes, small_corpus, noise=0.3, masks=masks), utt)
    hidden = masked == 0
    assert hidden.any()
    np.testing.assert_array_equal(masked[~hidden], x[~hidden])
    np.testing.assert_array_equal(labels, same)


def test_company_changes_no_piece(passes: dict[str, Any], small_corpus: Path) -> None:
    loader = make_loader(passes, small_corpus, noise=0.3, masks=Masks(1, 6, 1.0, 1, 3))
    names = [*cut_pieces(loader.data.lengths, 7)][:5]
    batch = loader(names)
    together = unpack(batch.streams["features"], batch.frames, order_of(batch))
    alone = sorted((read(loader, name)[0] for name in names), key=lambda x: -len(x))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.numpy())


@pytest.mark.slow
def test_pieces_and_masks_of_streams_at_other_rates(tmp_path: Path) -> None:
    """Pieces are those of the frames that each stream has at the rate of the first."""
    rate = "streams.pitch.subsampling=3"
    config = config_of(write_both(tmp_path / "corpus", 3), *BOTH, rate, *OPTIONS)
    data = open_set(config, "train")
    front_ends = {
        name: replace(
            features.front_end,
            normalisation=Normalisation(
                np.zeros(features.dimensions, np.float32), np.ones(features.dimensions, np.float32)
            ),
        )
        for name, features in data.streams.items()
    }
    loader = Loader(data, front_ends, ["pdfs"], 1, 1)
    masked = replace(loader, masks=Masks(1, 4, 1.0, 0, 0))
    utt = next(iter(data.lengths))
    pieces = [name for name in cut_pieces(data.lengths, 7) if name.split(" ")[0] == utt]
    for name in front_ends:
        parts = [read(loader, piece, name)[0] for piece in pieces]
        whole, _ = read(loader, utt, name)
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    hidden = [(read(masked, utt, name)[0] == 0).all(1) for name in front_ends]
    np.testing.assert_array_equal(*hidden)
    assert hidden[0].any()
    train(config, tmp_path / "run")
    assert states(tmp_path / "run")["3 dev_loss"] > 0
