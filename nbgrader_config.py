"""nbgrader's settings for this course; `run.py` and JupyterLab's formgrader both read them from here."""

from pathlib import Path

from autograder.execution import AUTOGRADE_PREPROCESSORS, SANITIZE_PREPROCESSORS

root = Path(__file__).resolve().parent
c = get_config()  # noqa: F821 -- traitlets puts it here

c.CourseDirectory.course_id = "tensors-and-autograd"
c.CourseDirectory.root = str(root)
# All that concerns people is below one folder, which git ignores.
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.solution_directory = "grading/solution"
c.CourseDirectory.source_with_tests_directory = "grading/source_with_tests"
# A second writer waits a minute instead of failing after five seconds.
c.CourseDirectory.db_url = f"sqlite:///{(root / 'grading' / 'gradebook.db').as_posix()}?timeout=60"
# nbgrader copies to release/ what stands beside a notebook: never these, should they ever get there.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "lesson.py", "attempts.py"]

# Files come in and go out by hand; without a folder that it may write to, formgrader warns on every page.
c.Exchange.root = str(root / "grading" / "exchange")

# The formgrader's button runs what `run.py grade` runs.
c.Autograde.sanitize_preprocessors = SANITIZE_PREPROCESSORS
c.Autograde.autograde_preprocessors = AUTOGRADE_PREPROCESSORS
c.Autograde.pre_convert_hook = "autograder.execution.enter_assignment"
# Seconds for one cell, to the engine and to Validate.
c.Execute.timeout = 60
