"""The experiments of the laboratory as commands carry them out: folders and recipes in, a finding out.

What is computed, and how it is drawn, is in `insight`; here it meets a model, its data and a sentence about both.
"""
