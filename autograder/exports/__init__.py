"""Marks for other programs: nbgrader's CSV with a column per exercise, and files that Canvas and Moodle take in."""

from autograder.exports.command import FORMS, export
from autograder.exports.plugins import CanvasExport, CourseExport, MoodleExport

__all__ = ["FORMS", "CanvasExport", "CourseExport", "MoodleExport", "export"]
