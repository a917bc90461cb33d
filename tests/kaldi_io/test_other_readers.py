"""What our readers accept of damaged files is accepted by Kaldi's and OpenFst's, with the values
that ours give."""

import random
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from tests.attacks.fuzzing import FORMATS
from tests.attacks.kaldi_models import KALDI_MODELS
from tests.attacks.kaldi_models import MISSING as NO_MODELS
from tests.attacks.mutations import edits_of
from tests.attacks.other_readers import KALDI, MISSING, refused_elsewhere

OF_KALDI = ("float.ark", "double.ark", "cm.ark", "cm2.ark", "cm3.ark", "text.ark")
OF_KALDI += ("ali.1", "ali.1.gz", "text", "utt2spk", "counts")
MODELS = ("tree", "topo", "final.txt")
STRICT = (*MODELS, "ali.1")
OF_OTHERS = ("const.fst", "vector.fst", "symbols.fst", "lm.arpa", "sound.wav", "sound.aiff")
ROUNDS, OF_STRICT = 25, 400  # STRICT ones take few changes


@pytest.mark.parametrize(
    "name",
    [
        *OF_OTHERS,
        *(
            pytest.param(name, marks=pytest.mark.skipif(not KALDI, reason=MISSING))
            for name in OF_KALDI
        ),
        *(
            pytest.param(name, marks=pytest.mark.skipif(not KALDI_MODELS, reason=NO_MODELS))
            for name in MODELS
        ),
    ],
)
def test_what_is_accepted_is_read_alike_elsewhere(name: str, tmp_path: Path) -> None:
    form = next(form for form in FORMATS if form.name == name)
    path = tmp_path / name
    form.write(path)
    assert refused_elsewhere(path) == ""
    whole, rng, refused = path.read_bytes(), random.Random(name), 0
    rounds = OF_STRICT if name in STRICT else ROUNDS
    for number in range(rounds):
        edit = rng.choice(edits_of(name, whole))
        path.write_bytes(edit(whole, rng))
        try:
            form.read(path)
        except InputError:
            refused += 1
        else:
            assert refused_elsewhere(path) == "", (number, edit.__name__)
    assert 0 < refused < rounds
