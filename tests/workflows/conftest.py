"""What tests of several commands share."""

from __future__ import annotations

import pytest
from judged_features import noisy_features


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> list[str]:
    """The words for a run on features of which two pairs in five are wrong."""
    return noisy_features(tmp_path_factory.mktemp("features"))
