"""Folders of sound with a text that somebody brings: files by names, utterances, spelling."""
