"""Confinement of the process that runs a learner's notebook: what is tried, entered, probed, reported and watched.

    plan(readable, limits)            in the process that starts the warm parent
    enter(plan, scratch, keep=...)    in a forked child, before any code of a learner
    probes.Targets, escape_attempts   outside, and in an entered child: does each wall hold?
    report(entered, attempts, plan)   what is enforced here, layer by layer, and the level
    watch.Watch(pid, scratch, limits) outside, while the child works: which limit is over?

Standard library and ctypes alone: the warm parent imports it, and nothing is imported after the fork.
"""

from autograder.sandbox import probes, system
from autograder.sandbox.planning import LAYERS, Plan, plan
from autograder.sandbox.reporting import LEVELS, Report, report

if system.SUPPORTED:
    from autograder.sandbox.entering import enter

__all__ = ["LAYERS", "LEVELS", "Plan", "Report", "enter", "plan", "probes", "report"]
