"""Captions measured against references: BLEU, ROUGE-L and CIDEr-D; METEOR and SPICE by the tools of their authors."""
