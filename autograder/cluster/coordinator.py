"""A run over a class on the workers of a Dask scheduler: what is where, who has ended, and what is tried again."""

import asyncio
import json
import logging
import operator
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import dask
from dask.utils import parse_timedelta
from distributed import Client, Future
from rich.console import Console

from autograder.cluster import parcels
from autograder.cluster.installed import Installed
from autograder.cluster.parcels import Answer, BadParcel, Failed, HandedIn, Lost, Ready, Refused, Results, Run, Sent
from autograder.engine.job import Settings, Submission
from autograder.folders import GradingError
from autograder.intake import Master
from autograder.sandbox import LEVELS, Report

#: What the workers import.
WORKER = "autograder.cluster.worker"
#: Submissions that wait at a worker for each that it grades.
AHEAD = 1
#: Bytes of submissions that are under way, so that large ones need no more memory than small ones.
BYTES_UNDER_WAY = 512 << 20
#: How many workers, or graders beside one, a submission may be given to that end or send what cannot be used.
TRIES = 3
#: After so many answers in a row that cannot be used, each to another submission, a worker is given no more.
BAD_IN_A_ROW = 3
#: Of so many submissions to one worker it is said what was wrong with the answer.
TOLD = 5
#: Seconds between two looks at who is there, and until a scheduler is given up that does not say.
LOOK_SECONDS = 1.0
SILENT_SECONDS = 60.0
#: Seconds without any worker after which a run ends, where Dask's own setting says nothing.
NO_WORKERS_SECONDS = 300.0
#: Seconds that taking leave of the scheduler may take.
LEAVE_SECONDS = 10.0


@dataclass
class _Try:
    """A submission that is to be graded, or is at a worker; `ended` has the workers that ended or erred with it."""

    submission: Submission
    ended: list[str] = field(default_factory=list)
    files: Mapping[str, bytes] = field(default_factory=dict)
    token: str = ""
    size: int = 0

    @property
    def is_suspect(self) -> bool:
        return bool(self.ended)


@dataclass
class _Worker:
    """A worker that is known, and what it has to grade, in its order."""

    address: str
    threads: int
    prepared: Future
    under_way: dict[asyncio.Task, _Try] = field(default_factory=dict)
    #: Answers of late that could not be used.
    bad: int = 0

    def has_room(self, ahead: int) -> bool:
        """Whether it can have more, if so many may wait for each that it grades; a suspect is there alone."""
        is_alone = any(one.is_suspect for one in self.under_way.values())
        return not is_alone and len(self.under_way) < self.threads * (1 + ahead)


def address_of(scheduler: str) -> str:
    """The address of a scheduler that is given by address or by the file that it writes."""
    path = Path(scheduler)
    if not path.is_file():
        if "://" not in scheduler and ":" not in scheduler:
            raise GradingError(
                f"There is no scheduler file {scheduler}. Expected that file, or an address as tcp://HOST:8786, as "
                "`dask scheduler` prints it when it starts."
            )
        return scheduler
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (ValueError, KeyError, TypeError) as error:
        raise GradingError(
            f"{scheduler} is no scheduler file: it holds no address. Expected what `dask scheduler --scheduler-file "
            "FILE` writes."
        ) from error


class Cluster:
    """The workers of a scheduler for one run; `report` is the weakest of their sandboxes, once one was examined."""

    def __init__(self, scheduler: str, run: Run, masters: Mapping[str, Master], settings: Settings):
        self._address, self._masters, self._settings = address_of(scheduler), masters, settings
        self._parcels = parcels.packed(Installed.here()), parcels.packed(run)
        self._sent: list[Future] = []
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._workers: dict[str, _Worker] = {}
        self._new: dict[asyncio.Task, _Worker] = {}
        self._refused: dict[str, str] = {}
        #: Worker -> what it sent that could not be used, in words.
        self._unusable: dict[str, list[str]] = {}
        self._asked: dict[asyncio.Task, _Worker] = {}
        self._waiting: deque[_Try] = deque()
        self._suspects: deque[_Try] = deque()
        self._under_way = self._total = self._graded = 0
        self._outcomes: deque[tuple[Submission, object]] = deque()
        self._ended: asyncio.Queue[asyncio.Task] = asyncio.Queue()
        self._looked = -LOOK_SECONDS
        self._seen = time.monotonic()
        self.report: Report | None = None

    def __enter__(self) -> "Cluster":
        # What Dask would say is said by us, in words; it gives a level to several of its loggers.
        for name in logging.root.manager.loggerDict:
            if name.partition(".")[0] == "distributed":
                logging.getLogger(name).setLevel(logging.CRITICAL)
        dask.config.set({"distributed.admin.large-graph-warning-threshold": BYTES_UNDER_WAY})
        self._patience = (
            parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout")) or NO_WORKERS_SECONDS
        )
        self._loop = asyncio.Runner()
        try:
            self._client = self._loop.run(self._connected())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._loop.run(self._leave())
        self._loop.close()
        self._tell_unusable()

    def grade(self, submissions: Sequence[Submission]) -> Iterator[tuple[Submission, object]]:
        """Yields each submission with its results as `Job.grade` gives them, or with why there are none, a string.

        Raises GradingError where the scheduler is lost or no worker will do; what was yielded before, stays.
        """
        self._waiting.extend(map(_Try, submissions))
        self._total = len(self._waiting)
        while (found := self._loop.run(self._next())) is not None:
            self._graded += 1
            yield found

    def _tell_unusable(self) -> None:
        """Name the workers that sent what could not be used, and for whom."""
        for address, told in self._unusable.items():
            more = [f"and {len(told) - TOLD} more"] if len(told) > TOLD else []
            self._console.print(
                f"worker {address} sent what cannot be used for {len(told)} submissions; they were given to others "
                "where there were any:",
                style="red",
                markup=False,
            )
            for words in (*told[:TOLD], *more):
                self._console.print(f"  {words}", markup=False)

    async def _connected(self) -> Client:
        client = Client(self._address, asynchronous=True, set_as_default=False, name="grading")
        try:
            return await client
        except (OSError, ValueError, TypeError, ImportError) as error:
            await client.close(LEAVE_SECONDS)
            raise GradingError(
                f"No Dask scheduler answers at {self._address}: {error}. Expected the address that `dask scheduler` "
                "prints when it starts, reachable from here; for tls:// also the certificates in Dask's configuration."
            ) from error

    async def _leave(self) -> None:
        """Let go of everything on the workers; graders end when that is known there."""
        for task in (*self._new, *self._asked):
            task.cancel()
        self._workers.clear()
        self._asked.clear()
        self._sent.clear()
        await self._client.close(LEAVE_SECONDS)

    async def _next(self) -> tuple[Submission, object] | None:
        """The next submission that is done, with what became of it; None when all are."""
        while not self._outcomes:
            if not (self._waiting or self._suspects or self._under_way):
                return None
            if self._client.status != "running":
                raise self._scheduler_lost("The connection was closed.")
            if time.monotonic() - self._looked > LOOK_SECONDS:
                await self._look()
                self._hand_out(self._workers.values())
            try:
                task = await asyncio.wait_for(self._ended.get(), LOOK_SECONDS)
            except TimeoutError:
                continue
            if self._client.status != "running":
                continue
            if (one := self._new.pop(task, None)) is not None:
                self._introduced(one, task.result())
            elif (one := self._asked.pop(task, None)) is not None:
                self._heard(one, one.under_way.pop(task), task.result())
            if one is not None and one.address in self._workers:
                self._hand_out([one])
        return self._outcomes.popleft()

    # ----------------------------------------------------------------------------------------------- who is there

    async def _look(self) -> None:
        """Find out who has come and who has gone; raises GradingError where no one is left to wait for."""
        try:
            threads = await asyncio.wait_for(self._client.scheduler.ncores(), SILENT_SECONDS)
        except OSError as error:  # a TimeoutError is one
            raise self._scheduler_lost(str(error) or f"It did not answer for {SILENT_SECONDS:g} s.") from error
        self._looked = time.monotonic()
        for address in self._workers.keys() - threads.keys():
            self._gone(self._workers.pop(address), "The worker ended or was cut off.")
        for address in self._refused.keys() - threads.keys():
            del self._refused[address]
        for task in [task for task, one in self._new.items() if one.address not in threads]:
            del self._new[task]
            task.cancel()
        known = {*self._workers, *self._refused, *(one.address for one in self._new.values())}
        for address in threads.keys() - known:
            self._introduce(address, threads[address])
        self._be_patient()

    def _be_patient(self) -> None:
        if self._workers or self._new:
            self._seen = time.monotonic()
        elif self._refused and self.report is None:
            reasons = "\n".join(f"  {address}: {reason}" for address, reason in self._refused.items())
            raise GradingError(
                f"No worker at {self._address} can be used:\n{reasons}\nStart some on Linux, from an environment with "
                f"this very version of the course and its extra `cluster`. {self._so_far()}"
            )
        elif time.monotonic() - self._seen > self._patience:
            raise GradingError(
                f"The scheduler at {self._address} has had no worker for {self._patience:g} s. Start some with "
                f"`dask worker {self._address}` from an environment with this course. {self._so_far()}"
            )

    def _so_far(self) -> str:
        return (
            f"{self._graded} of {self._total} submissions are written; run the same command again, which goes on "
            "where it stopped."
        )

    def _scheduler_lost(self, reason: str) -> GradingError:
        return GradingError(
            f"The Dask scheduler at {self._address} was lost: {reason} Start it and its workers again, or grade "
            f"without --scheduler. {self._so_far()}"
        )

    def _introduce(self, address: str, threads: int) -> None:
        """Send a new worker what the run is about, and ask what its sandbox enforces."""
        # One task for all, so that workers have the bytes from each other and the scheduler keeps them once.
        if not self._sent:
            self._sent = [self._client.submit(bytes, parcel, pure=False) for parcel in self._parcels]
        module = self._submit(address, import_module, WORKER)
        prepare = self._submit(address, operator.attrgetter("prepare"), module)
        prepared = self._submit(address, operator.call, prepare, *self._sent, address)
        first = self._submit(address, operator.methodcaller("first_answer"), prepared)
        self._new[self._asking(first)] = _Worker(address, threads, prepared)

    def _submit(self, address: str, function, *arguments) -> Future:
        """A task for one worker. Only functions of the standard library: what a worker lacks would end it."""
        only = {"workers": [address], "allow_other_workers": False, "pure": False}
        return self._client.submit(function, *arguments, **only)

    def _asking(self, future: Future) -> asyncio.Task:
        """What comes to the future's answer, and is then in the queue of what has ended."""
        task = asyncio.ensure_future(self._answer(future))
        task.add_done_callback(self._ended.put_nowait)
        return task

    def _introduced(self, found: _Worker, answer: Answer) -> None:
        """Use a worker that has answered, or say why not."""
        if isinstance(answer, Ready):
            self._workers[found.address] = found
            self._console.print(
                f"worker {found.address} on {answer.place.host}, {found.threads} at a time: sandbox "
                f"{answer.report.level}, {answer.report.host}",
                markup=False,
            )
            if self.report is None or LEVELS.index(answer.report.level) < LEVELS.index(self.report.level):
                self.report = answer.report
        elif isinstance(answer, Results):
            self._refuse(found, "Its first answer is the answer to something else.")
        else:
            self._refuse(found, answer.reason)

    async def _answer(self, future: Future) -> Answer:
        """The answer that a future comes to; that of a worker which cannot answer is Lost."""
        try:
            return parcels.answer_in(await future)
        except BadParcel as error:
            return Failed(str(error))
        except asyncio.CancelledError as error:
            if asyncio.current_task().cancelling():
                raise
            return Lost(f"{type(error).__name__}: {error}")
        except Exception as error:  # Dask raises here what kept the task from being run, of whatever class
            return Lost(f"{type(error).__name__}: {' '.join(str(error).split())}")

    # ------------------------------------------------------------------------------------------- who grades what

    def _hand_out(self, workers: Iterable[_Worker]) -> None:
        """Give those of the workers that have room what they may have; none waits while another worker is idle."""
        for ahead in range(1 + AHEAD):
            for one in workers:
                while one.has_room(ahead) and self._under_way < BYTES_UNDER_WAY and (next_try := self._for(one)):
                    self._send(one, next_try)

    def _for(self, one: _Worker) -> _Try | None:
        """What a worker is given next: a suspect alone, so that it costs no other, and elsewhere where there is one."""
        if self._waiting:
            return self._waiting.popleft()
        if self._suspects and not one.under_way:
            for suspect in self._suspects:
                if one.address not in suspect.ended or self._workers.keys() <= set(suspect.ended):
                    self._suspects.remove(suspect)
                    return suspect
        return None

    def _send(self, one: _Worker, tried: _Try) -> None:
        submission = tried.submission
        try:
            handed_in = HandedIn.read(submission)
        except OSError as error:
            self._done(tried, f"It cannot be read: {error}")
            return
        # At least 1, so that nothing under way is nothing.
        tried.files, tried.size = handed_in.files_beside(self._masters[submission.assignment]), handed_in.size + 1
        tried.token = handed_in.token
        grade = operator.methodcaller("grade", parcels.packed(handed_in))
        task = self._asking(self._submit(one.address, grade, one.prepared))
        one.under_way[task] = tried
        self._asked[task] = one
        self._under_way += tried.size

    def _heard(self, one: _Worker, tried: _Try, answer: Answer) -> None:
        """What becomes of a submission whose worker has answered."""
        self._under_way -= tried.size
        if isinstance(answer, Results):
            try:
                self._done(tried, self._outcome(answer, one, tried))
                one.bad = 0
            except BadParcel as error:
                self._cannot_use(one, tried, str(error))
        elif isinstance(answer, Lost):
            self._try_again(tried, one.address, answer.reason)
        elif isinstance(answer, Refused):
            self._waiting.appendleft(tried)
            self._refuse(one, answer.reason)
        elif isinstance(answer, Failed):
            self._cannot_use(one, tried, answer.reason)
        else:
            self._cannot_use(one, tried, "it is the answer to something else")

    def _outcome(self, answer: Results, one: _Worker, tried: _Try) -> list:
        sent = Sent(tried.submission, tried.token, one.address, tried.files)
        return parcels.outcome(answer, sent, self._masters[tried.submission.assignment], self._settings)

    def _cannot_use(self, one: _Worker, tried: _Try, reason: str) -> None:
        """Have a submission graded elsewhere, and do without a worker that sends nothing else.

        One that others have erred with says nothing of this worker: it may be the submission.
        """
        its = f"{tried.submission.student}, {tried.submission.assignment}"
        self._unusable.setdefault(one.address, []).append(f"{its}: {reason}")
        one.bad += not tried.is_suspect
        self._try_again(tried, one.address, f"What the last of them sent cannot be used: {reason}.")
        if one.bad >= BAD_IN_A_ROW:
            self._refuse(one, f"Its last {one.bad} answers cannot be used.")

    def _gone(self, one: _Worker, reason: str) -> None:
        """Give what a lost worker had to others, each alone: any of it may be why the worker was lost.

        Not the oldest alone: its answer may have been on the way when the next one ended the worker.
        """
        self._console.print(f"worker {one.address} is lost. {reason}", style="red", markup=False)
        for tried in self._taken_back(one):
            self._try_again(tried, one.address, reason)

    def _refuse(self, one: _Worker, reason: str) -> None:
        """Give a worker nothing more, and what it had to others."""
        self._console.print(f"worker {one.address} is not used. {reason}", style="red", markup=False)
        self._refused[one.address] = reason
        self._workers.pop(one.address, None)
        self._waiting.extendleft(reversed(self._taken_back(one)))

    def _taken_back(self, one: _Worker) -> list[_Try]:
        """What a worker had, the oldest first; what it still says of it is not heard."""
        tries = list(one.under_way.values())
        for task in one.under_way:
            del self._asked[task]
            task.cancel()
        one.under_way = {}
        self._under_way -= sum(tried.size for tried in tries)
        return tries

    def _try_again(self, tried: _Try, address: str, reason: str) -> None:
        tried.ended.append(address)
        tried.files = {}
        if len(tried.ended) < TRIES:
            self._suspects.append(tried)
        else:
            self._done(
                tried,
                f"Each of {TRIES} workers that graded it was lost, or sent what cannot be used "
                f"({', '.join(tried.ended)}). {reason} Run the same command again; if that ends so, too, please report "
                "it.",
            )

    def _done(self, tried: _Try, outcome: object) -> None:
        self._outcomes.append((tried.submission, outcome))
