"""Criteria of whole utterances, and what they read."""
