"""`equipoise audit`: how noisy a data set is, and which of its pairs are to blame."""

from __future__ import annotations

from equipoise.workflows.audit.run import Audit, audit_data, run_audit, scoring_by

__all__ = ["Audit", "audit_data", "run_audit", "scoring_by"]
