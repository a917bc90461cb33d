"""Options of Kaldi's programs and scripts that stand inside a value, each read once or said."""

import math
from collections.abc import Sequence

from bayes_asr.pytorch_kaldi.notes import Notes
from bayes_asr.pytorch_kaldi.sections import Option, parse_number, parse_whole

TRUE, FALSE = ("true", "t", "1", ""), ("false", "f", "0")  # as Kaldi's ParseOptions reads them


class CommandLine:
    """The words of a command behind its name.

    arguments: words that are no options. As Kaldi does, small letters and capitals are one, and so
    are - and _; of an option that is there twice the last counts, which is said.
    """

    def __init__(
        self, option: Option, line: int, words: Sequence[str], notes: Notes, *, of_script: bool
    ) -> None:
        """Split the words; of_script: an option's value is the next word, as in parse_options.sh.

        Programs want `--name=value`.
        """
        self.option, self.line, self.notes = option, line, notes
        self.arguments: list[str] = []
        self._pending: dict[str, tuple[str, str]] = {}
        queue = list(words)
        while queue:
            word = queue.pop(0)
            if not word.startswith("--"):
                self.arguments.append(word)
                continue
            name, equals, value = word[2:].partition("=")
            if of_script and not equals:
                value = queue.pop(0) if queue else ""
                word = f"{word} {value}".rstrip()
            key = name.lower().replace("_", "-")
            if key in self._pending:
                self.say(self._pending[key][0], f"is there twice: {word} counts")
            self._pending[key] = (word, value)

    def take(self, name: str) -> str | None:
        """The value of an option; None where it is missing."""
        word = self._pending.pop(name, None)
        return None if word is None else word[1]

    def take_flag(self, name: str, *, default: bool) -> bool:
        """The value of an option that is true or false; InputError for any other."""
        value = self.take(name)
        if value is None:
            return default
        if value.lower() not in TRUE + FALSE:
            raise self.option.error(f"--{name}={value[:40]} is neither true nor false", self.line)
        return value.lower() in TRUE

    def take_whole(self, name: str) -> int | None:
        """The value of an option that is a whole number; InputError for any other."""
        value = self.take(name)
        return None if value is None else parse_whole(self.option, value, self.line)

    def take_numbers(self, name: str) -> list[float]:
        """The values of an option that is a list of numbers; InputError for any other."""
        value = self.take(name)
        texts = value.split(",") if value is not None else []
        return [parse_number(self.option, text, least=-math.inf) for text in texts]

    def say(self, words: str, why: str) -> None:
        """Say what becomes of some of the words."""
        self.notes.say(self.line, f"[{self.option.section}] {self.option.name} {words[:80]}", why)

    def say_pending(self) -> None:
        """Say of each option that nothing took that it is left out."""
        for word, _ in self._pending.values():
            self.say(word, "has no counterpart: left out")
