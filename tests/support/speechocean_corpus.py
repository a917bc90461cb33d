"""A made-up speechocean762: each phone is a tone, and one in seven is a wrong one."""

import json
import wave
from pathlib import Path

import numpy as np

from bayes_asr.kaldi_io.text import write_mapping, write_text

RATE = 16000
LEXICON = {"BAD": ["B AE1 D"], "A": ["AH0", "EY1"], "DAB": ["D AE1 B"], "ODD": ["EY1 D"]}
TONES = {"B": 400, "AE": 900, "D": 1400, "AH": 1900, "EY": 2400}  # Hz
SPEAKERS = {"train": 10, "test": 4}
SPOKEN = 3  # utterances of a speaker


def write_speechocean762(root: Path) -> Path:
    """Write women and men, children and adults in turn; ODD is spoken in test alone."""
    rng = np.random.default_rng(1)
    scores, spellings = {}, {}
    for name, people in SPEAKERS.items():
        known = [*LEXICON][: 4 if name == "test" else 3]
        names = [f"{100 * (name == 'test') + number:04d}" for number in range(people)]
        texts = {}
        for utt in (f"0{who}{number:04d}" for who in names for number in range(SPOKEN)):
            texts[utt] = [*rng.choice(known, 3), known[-1]]
            spelled = [rng.choice(LEXICON[word]).split() for word in texts[utt]]
            phones = [phone.rstrip("012") for all_of in spelled for phone in all_of]
            wrong = rng.random(len(phones)) < 0.15
            write_sound(root / sound_of(utt), phones, wrong, rng)
            entries = score_words(texts[utt], spelled, wrong)
            scores[utt] = {"text": " ".join(texts[utt]), "words": entries}
            for place, all_of in enumerate(spelled):
                spellings[f"{utt}.{place}"] = [f"{all_of[0]}_B", *all_of[1:]]
        folder = root / name
        folder.mkdir(parents=True)
        write_text(texts.items(), folder / "text")
        write_mapping([(utt, utt[1:5]) for utt in texts], folder / "utt2spk")
        write_mapping([(utt, sound_of(utt)) for utt in texts], folder / "wav.scp")
        ages = (7, 23)
        write_mapping([(who, ages[n // 2 % 2]) for n, who in enumerate(names)], folder / "spk2age")
        write_mapping([(who, "fm"[n % 2]) for n, who in enumerate(names)], folder / "spk2gender")
    resource = root / "resource"
    resource.mkdir()
    write_text(spellings.items(), resource / "text-phone")
    entries = [(word, spelled.split()) for word, all_of in LEXICON.items() for spelled in all_of]
    write_text(entries, resource / "lexicon.txt")
    (resource / "scores.json").write_text(json.dumps(scores))
    return root


def sound_of(utt: str) -> str:
    """The sound of an utterance, as wav.scp has it."""
    return f"WAVE/SPEAKER{utt[1:5]}/{utt}.WAV"


def score_words(words: list[str], spelled: list[list[str]], wrong: np.ndarray) -> list[object]:
    """The words of an utterance as scores.json has them: 0 for a wrong phone, else 2."""
    entries = []
    accuracies = iter((2.0 * ~wrong).tolist())
    for word, phones in zip(words, spelled, strict=True):
        of_phones = [next(accuracies) for _ in phones]
        entry = {"text": word, "phones": phones, "phones-accuracy": of_phones}
        entries.append(entry | {"accuracy": round(5 * float(np.mean(of_phones)))})
    return entries


def write_sound(path: Path, phones: list[str], wrong: np.ndarray, rng: np.random.Generator) -> None:
    """A tone for each phone between two pauses; wrong ones have that of another phone."""
    others = [rng.choice([*TONES.keys() - {phone}]) for phone in phones]
    heard = np.where(wrong, others, phones)
    tones = [0, *(TONES[phone] for phone in heard), 0]
    pitch = np.repeat(tones, rng.integers(1500, 2500, len(tones)))
    sound = 3000 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + rng.normal(0, 100, len(pitch))
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(sound.astype("<i2").tobytes())
