"""The grading engine: learners' notebooks run in sandboxed processes, verdicts are made outside of them.

coordinator   the `grade` command: intake, records, the one writer of the gradebook
  job         referee: knows references and misconceptions, judges, never runs a learner's code
    parent    a warm program without secrets, which forks
      child   one notebook: enters the sandbox, runs cells, answers what the referee asks
"""
