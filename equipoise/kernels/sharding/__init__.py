"""The contrast of a batch whose points lie on several ranks."""
