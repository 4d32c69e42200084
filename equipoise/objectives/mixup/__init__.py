"""Mixup in pixels, in one modality and between modalities (m2-Mix, m3-Mix)."""
