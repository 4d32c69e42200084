"""How similarity is held against the target. A form works on blocks; `kernels` puts the blocks together."""

from __future__ import annotations

from equipoise.forms.cross_entropy import CrossEntropy
from equipoise.forms.form import Form, SingleSweep, Statistics

FORMS: dict[str, Form | type[Form]] = {
    "cross_entropy": CrossEntropy,
}

__all__ = ["FORMS", "CrossEntropy", "Form", "SingleSweep", "Statistics"]
