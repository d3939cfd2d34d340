"""What a learner's cell and notebook may use."""

from dataclasses import asdict, dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on one cell and one notebook; times in seconds, sizes in bytes.

    `memory` is resident memory beyond what the process had when it was forked, `output` what one cell may print before
    it is stopped, `disk` and `files` what the scratch folder may hold.
    """

    cell_seconds: float = 30.0
    notebook_seconds: float = 600.0
    memory: int = 2048 * MIB
    output: int = 8 * MIB
    disk: int = 256 * MIB
    files: int = 10_000
    file_bytes: int = 64 * MIB
    threads: int = 256
    descriptors: int = 512

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ValueError(f"the limit {name} is {value:g}; give a number above 0")


#: How each limit is told to learners; the key is the reason in the record.
WORDS = {
    "timeout": "the time limit of {cell_seconds:g} s for one cell was reached",
    "memory": "the memory limit of {memory_mib} MiB was reached",
    "disk": "the disk limit of {disk_mib} MiB was reached",
    "output": "the output limit of {output_mib} MiB for one cell was reached",
    "files": "the limit of {files} files was reached",
    "threads": "the limit of {threads} threads was reached",
    "processes": "another process was to be started, which is not allowed while grading",
    "died": "the process ended",
}
#: What a learner is asked then.
QUESTIONS = {
    "timeout": "Which line goes on for so long?",
    "memory": "Which line takes so much?",
    "disk": "Which line writes so much?",
    "output": "Which line prints so much?",
    "files": "Which line makes or opens so many?",
    "threads": "Which line starts so many?",
    "processes": "What could it do without one?",
    "died": "Which line ends it?",
}


def words(reason: str, limits: Limits) -> str:
    """The limit that was hit, in words."""
    sizes = {f"{name}_mib": getattr(limits, name) // MIB for name in ("memory", "disk", "output")}
    return WORDS[reason].format(**asdict(limits), **sizes)
