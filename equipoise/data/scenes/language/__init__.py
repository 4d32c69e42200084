"""What is said of scenes: lexicon, grammar, parser, meaning."""
