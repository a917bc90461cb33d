"""Pronunciations of words that a lexicon lacks, by an encoder-decoder network that learnt it.

G2P, from graphemes to phonemes (with attention: Toshniwal & Livescu 2016): a word is an utterance,
its letters are the frames, one-hot rows, and its phones the labels.
"""
