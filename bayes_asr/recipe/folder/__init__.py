"""Corpora that are a folder of sound files and a text: files by names, utterances, spelling."""
