"""What learners import: checks and what helps around them, predictions, figures, and the unit's own files."""

from autogradlab.checking import check
from autogradlab.overview import progress
from autogradlab.predictions import commit, reveal
from autogradlab.resetting import reset
from autogradlab.showing import solutions
from autogradlab.shrinking import smaller
from autogradlab.units import unit

__all__ = ["check", "commit", "progress", "reset", "reveal", "smaller", "solutions", "unit"]
