"""Labels of frames: pdfs and phones of alignments, by cross entropy."""
