"""Labels of utterances: one class of each, or a sequence that a decoder with attention writes."""
