"""A submission made ready for grading: read, recognised and restored from the master, every repair said in words."""

from autograder.intake.master import Master, MasterCell, MasterNotebook
from autograder.intake.taking import Taken, take

__all__ = ["Master", "MasterCell", "MasterNotebook", "Taken", "take"]
