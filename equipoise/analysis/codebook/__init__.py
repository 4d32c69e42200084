"""What the codes of a code book stand for."""
