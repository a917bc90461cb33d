"""Gaussian mixtures: from sound to speaker-adapted features and alignments, in Kaldi's steps."""
