"""Sound, features, targets, and sets of utterances that have them."""
