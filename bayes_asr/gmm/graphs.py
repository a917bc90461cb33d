"""Training graphs: the HMM of each transcript (Kaldi's compile-train-graphs)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.decode.graph.assembly import Hmms, assemble, expand_context
from bayes_asr.decode.graph.lang import read_lexicon_fst
from bayes_asr.decode.graph.transcript_acceptors import LexiconTransducer
from bayes_asr.kaldi_io.binary import iter_lines
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.transition_model import TransitionModel


@dataclass(frozen=True)
class GraphCompiler:
    """Compiler of training graphs: a lexicon, word-ids, and HMMs of phones in context.

    oov: the word-id of words that `words` lacks.
    """

    lexicon: LexiconTransducer
    words: Mapping[str, int]
    oov: int
    hmms: Hmms

    def compile(self, utt: str, words: Sequence[str]) -> Fst:
        """Return the graph of `words`: transition-ids on input labels, none on output labels.

        It has no transition probabilities, which change from pass to pass: the aligner adds them.
        Raises InputError, naming the utterance, for a word without a pronunciation.
        """
        try:
            word_ids = [self._number(word) for word in words]
            acceptor = self.lexicon.transcript_acceptor(word_ids)
            return assemble(*expand_context(acceptor, self.hmms.tree), self.hmms)
        except InputError as error:
            raise InputError(f"{utt}: {error}") from None

    def _number(self, word: str) -> int:
        number = self.words.get(word, self.oov)
        if number not in self.lexicon.words:
            raise InputError(f"the word {word} has no pronunciation in the lexicon")
        return number


def read_compiler(lang: Path, model: TransitionModel, tree: Tree) -> GraphCompiler:
    """Read L.fst, words.txt and oov.txt of a lang folder, ours or Kaldi's.

    InputError where phones of L.fst are not in the topology of the model.
    """
    words = read_symbols(lang / "words.txt")
    lexicon = LexiconTransducer(read_lexicon_fst(lang / "L.fst", words.values()))
    strangers = sorted({*lexicon.fst.ilabel.tolist()} - {0, *model.topology})
    if strangers:
        raise InputError(
            f"{lang / 'L.fst'}: says the phone {strangers[0]}, which the model of"
            f" {len(model.topology)} phones lacks; take the lang folder of the model"
        )
    return GraphCompiler(lexicon, words, _read_oov(lang, words), Hmms(model, tree))


def _read_oov(lang: Path, words: Mapping[str, int]) -> int:
    """The word-id of oov.txt."""
    entries = [word for _, fields in iter_lines(lang / "oov.txt") for word in fields]
    if len(entries) != 1 or entries[0] not in words:
        raise InputError(f"{lang / 'oov.txt'}: is not one word of words.txt: {' '.join(entries)}")
    return words[entries[0]]
