"""One class an utterance, such as its language."""
