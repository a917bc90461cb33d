"""bayes-asr graph: a decoding graph from lexicon, language model, tree and transition model."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError, count_of, name_some
from bayes_asr.base.files import discard, is_there, read_bytes, replacing, together
from bayes_asr.base.log import LOGGER
from bayes_asr.cli.arguments import real, refuse_useless, whole
from bayes_asr.decode.graph.build import (
    Graph,
    GraphOptions,
    build_graph,
    build_lang_graph,
    write_graph,
    write_lang_graph,
)
from bayes_asr.decode.graph.dictionary import SUFFIXES
from bayes_asr.decode.graph.lang import (
    SILENCE_PROBABILITY,
    build_monophones,
    find_phone_table,
    pause_probability,
    read_silence_phones,
)
from bayes_asr.decode.graph.lexicon import Lang, Pronunciation, read_lexicon
from bayes_asr.decode.graph.ngram import (
    NgramModel,
    estimate_kneser_ney,
    estimate_witten_bell,
    read_arpa,
    refuse_mute,
    write_arpa,
)
from bayes_asr.decode.graph.transducers import RESERVED
from bayes_asr.decode.search.hotwords import read_hotwords
from bayes_asr.decode.search.inputs import graph_files
from bayes_asr.decode.vocabulary import Pronounce, add_unigrams, add_words
from bayes_asr.kaldi_io.context_dependency import Tree
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.symbols import check_same_phones, read_symbols
from bayes_asr.kaldi_io.text import read_text
from bayes_asr.kaldi_io.transition_model import TransitionModel
from bayes_asr.kaldi_io.tree import read_tree

SCALE = real(0, 100)  # Kaldi takes 1 and 0.1
ORDER = 2  # of the model that a text gives
OF_LEXICON = ("phones", "silence", "silence_prob")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    words = parser.add_mutually_exclusive_group(required=True)
    words.add_argument("--lexicon", type=Path, metavar="FILE", help="lexicon.txt or lexiconp.txt")
    words.add_argument(
        "--lang", type=Path, metavar="DIR", help="lang folder: its pauses, positions and phones"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--lm", type=Path, metavar="ARPA", help="language model")
    source.add_argument(
        "--text", type=Path, help="Kaldi text to estimate one from, which is kept as OUT/lm.arpa"
    )
    parser.add_argument(
        "--order", type=whole(1, 10), help=f"of the estimated model (default {ORDER})"
    )
    parser.add_argument(
        "--smoothing",
        choices=("witten-bell", "kneser-ney"),
        help="of the estimated model: witten-bell (default) has all words of the lexicon,"
        " kneser-ney only those of the text",
    )
    parser.add_argument(
        "--model", type=Path, help="final.mdl; default: the monophones that align --flat makes"
    )
    parser.add_argument("--tree", type=Path, help="default: tree beside the model")
    parser.add_argument(
        "--phones", type=Path, help="phones.txt; default: beside the model, or in a lang folder"
    )
    parser.add_argument("--out", type=Path, required=True, help="graph directory to write")
    parser.add_argument(
        "--silence",
        metavar="PHONE",
        help="phone of pauses; default: that of optional_silence.txt by the lexicon, or SIL, sil",
    )
    parser.add_argument(
        "--silence-prob",
        type=real(0, 0.999),
        metavar="P",
        help=f"of a pause between words (default {SILENCE_PROBABILITY}; 0 if each word is a phone)",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="write HCL.fst and G.fst, which decode composes while it searches, for a large --lm",
    )
    _add_hotword_arguments(parser)
    parser.add_argument("--transition-scale", type=SCALE, default=1.0, help="default %(default)s")
    parser.add_argument("--self-loop-scale", type=SCALE, default=0.1, help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_hotword_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of words that become part of the graph."""
    parser.add_argument(
        "--hotwords",
        type=Path,
        metavar="FILE",
        help="of decode: words that the lexicon or the model lacks become part of both",
    )
    parser.add_argument(
        "--g2p",
        type=Path,
        metavar="MODEL",
        help="of bayes-asr g2p: phones of hotwords that have none in the file or the lexicon",
    )


def run(args: argparse.Namespace) -> None:
    """Build the graph, write its directory and print its size."""
    if args.g2p and not args.hotwords:
        raise InputError("--g2p pronounces --hotwords; name them too")
    graph, details = (_build_of_lang if args.lang else _build_of_lexicon)(args)
    summary = {
        "states": graph.hclg.num_states,
        "arcs": graph.hclg.num_arcs,
        "words": len(graph.words.keys() - {*RESERVED}),
        "words_without_pronunciation": len(graph.foreign_words),
        **details,
    }
    if args.json:
        print(json.dumps(summary))
        return
    print(f"{args.out}: " + ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in summary.items()))
    if graph.foreign_words:
        print(
            "left out of the language model, because the lexicon has no such word: "
            f"{name_some(sorted(graph.foreign_words))}"
        )


def _build_of_lexicon(args: argparse.Namespace) -> tuple[Graph, dict[str, float]]:
    """Build and write the graph of a lexicon, with pauses as the arguments say."""
    lexicon = read_lexicon(args.lexicon)
    phones, model, tree = _model(args, lexicon)
    probability = args.silence_prob
    if probability is None:
        probability = pause_probability(lexicon)
    silence = _silence(args.silence, args.lexicon.parent, phones)
    if probability and not silence:
        raise InputError(f"{args.lexicon}: which phone is silence? Give --silence PHONE")
    language_model = _language_model(args, [entry.word for entry in lexicon])
    lang = Lang(lexicon, silence[0] if silence else None, probability)
    details = {"silence_probability": probability}
    if args.hotwords:
        hotwords = read_hotwords(args.hotwords)
        lang, fresh = add_words(lang, hotwords, _open_g2p(args.g2p))
        language_model = add_unigrams(language_model, hotwords)
        details["new_words"] = len(fresh)
    graph = build_graph(lang, language_model, phones, model, tree, _options(args))
    with together(args.out):
        _settle_model(args, language_model)
        write_graph(graph, args.out, silence)
    return graph, details


def _build_of_lang(args: argparse.Namespace) -> tuple[Graph, dict[str, float]]:
    """Build and write the graph of a lang folder, which has pauses and phones of its own."""
    refuse_useless(args, "--lang, which says this itself", OF_LEXICON)
    if args.hotwords:
        raise InputError("--hotwords puts words into a --lexicon, not into a --lang folder")
    if args.model is None:
        raise InputError("--lang needs the --model that was trained with this folder")
    check_same_phones(args.lang, args.model.parent)
    words = {*read_symbols(args.lang / "words.txt")} - {*RESERVED}
    language_model = _language_model(args, sorted(words))
    graph = build_lang_graph(
        args.lang,
        language_model,
        read_transition_model(args.model),
        read_tree(args.tree or args.model.parent / "tree"),
        _options(args),
    )
    with together(args.out):
        _settle_model(args, language_model)
        write_lang_graph(graph, args.lang, args.out)
    return graph, {}


def _settle_model(args: argparse.Namespace, model: NgramModel) -> None:
    """Write the model that was estimated, or else set that of an earlier graph of the folder aside,
    which is not to be taken for that of this one.
    """
    path, aside = args.out / "lm.arpa", args.out / "lm.former.arpa"
    if args.text:
        write_arpa(model, path)
    elif is_there(path) and is_there(graph_files(args.out)[0]):
        former = read_bytes(path)
        if former != read_bytes(args.lm):
            LOGGER.warning("%s: not the model of this graph; it is set aside as %s", path, aside)
            with replacing(aside) as temporary:
                temporary.write_bytes(former)
            discard(path)


def _open_g2p(model: Path | None) -> Pronounce | None:
    if model is None:
        return None
    from bayes_asr.decode.g2p.model import load_g2p  # which wants torch

    return load_g2p(model).pronounce


def _options(args: argparse.Namespace) -> GraphOptions:
    return GraphOptions(args.transition_scale, args.self_loop_scale, args.apart)


def _model(
    args: argparse.Namespace, lexicon: Sequence[Pronunciation]
) -> tuple[dict[str, int], TransitionModel, Tree]:
    """Phone table, transition model and tree."""
    if args.model:
        return (
            read_symbols(args.phones or find_phone_table(args.model, args.lexicon)),
            read_transition_model(args.model),
            read_tree(args.tree or args.model.parent / "tree"),
        )
    if args.phones or args.tree:
        raise InputError("--phones and --tree belong to a --model: name it too")
    return build_monophones(args.lexicon.parent, lexicon)


def _language_model(args: argparse.Namespace, words: Sequence[str]) -> NgramModel:
    if args.lm:
        refuse_useless(args, "--lm", ("order", "smoothing"))
        return read_arpa(args.lm)
    sentences, order = [*read_text(args.text).values()], args.order or ORDER
    spoken = {word for sentence in sentences for word in sentence}
    kneser_ney = args.smoothing == "kneser-ney"
    model = (
        estimate_kneser_ney(sentences, order)
        if kneser_ney
        else estimate_witten_bell(sentences, order, words)
    )
    # The model may have all words of the lexicon; what the text has of them is seen here alone.
    refuse_mute(args.text, spoken, spoken, dict.fromkeys(words))
    if kneser_ney and (unspoken := {*words} - spoken - {*RESERVED}):
        LOGGER.warning(
            "%s lacks %s of the lexicon, never to be recognised: %s; witten-bell has all of it",
            args.text,
            count_of(len(unspoken), "word"),
            name_some(sorted(unspoken)),
        )
    return model


def _silence(phone: str | None, directory: Path, phones: dict[str, int]) -> list[str]:
    """Silence phones, the optional one first: `phone`, and as the dict folder says, or by name.

    Where the table has their forms _B _E _I _S, these are silence too.
    """
    if phone is None:
        silence_phones = read_silence_phones(directory, phones)
    else:
        listed = read_silence_phones(directory)
        silence_phones = [phone, *(other for other in listed if other in phones)]
    for name in silence_phones:
        if name not in phones:
            source = f"--silence {phone}" if phone else str(directory)
            raise InputError(
                f"{source}: the silence phone {name} is not among the phones of the model, such as"
                f" {name_some(sorted(phones))}; give one of them as --silence"
            )
    forms = [f"{name}{suffix}" for name in silence_phones for suffix in ("", *SUFFIXES)]
    return [form for form in dict.fromkeys(forms) if form in phones]
