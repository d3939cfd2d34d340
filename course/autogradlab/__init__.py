"""What learners import: checks, predictions, figures, and the unit's own files."""

from autogradlab.checking import check
from autogradlab.predictions import commit, reveal
from autogradlab.units import unit

__all__ = ["check", "commit", "reveal", "unit"]
