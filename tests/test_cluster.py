"""Grading on the workers of a Dask scheduler: real schedulers and workers on this machine, some of them killed."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import damages
import nbformat
import pytest
from gradebook_rows import rows
from left_over import left_over, processes_of

from autograder import grading
from autograder.cluster import coordinator, opened, parcels, worker
from autograder.cluster.installed import Installed
from autograder.cluster.parcels import BadParcel, HandedIn, Place, Results, Run, Sent
from autograder.engine.job import Job, Submission
from autograder.engine.limits import Limits
from autograder.folders import Folders, GradingError
from autograder.intake import Master, take

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases" / "submissions"
KINDS = ("good", "naive", "blank")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


class DaskProcesses:
    """A scheduler and its workers, as processes of this machine on free ports."""

    def __init__(self, place):
        self.place, self.file, self.workers = place, place / "scheduler.json", []
        self.environment = os.environ | {"XDG_CACHE_HOME": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self.file)
        self._wait_for(self.file.is_file, "the scheduler")

    def add(self, *options, **environment):
        """One more worker, of one thread, which is not started again when it is killed unless options say so."""
        options = options or ("--no-nanny",)
        known = f"w{len(self.workers)}"
        more = ("--nthreads", "1", "--name", known, "--local-directory", self.place / known, *options)
        process = self._start("worker", "--scheduler-file", self.file, *more, **environment)
        self.workers.append(process)
        return process

    def _start(self, kind, *options, **environment):
        log = (self.place / f"{kind}-{len(self.workers)}.log").open("w")
        command = [sys.executable, "-m", "dask", kind, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        with log:
            return subprocess.Popen(
                [*command, *options],
                env=self.environment | environment,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_for(self, there, what):
        deadline = time.monotonic() + 60
        while not there():
            assert time.monotonic() < deadline, f"{what} has not started"
            time.sleep(0.05)

    def close(self):
        for processes in (self.workers, [self.scheduler]):
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(90)  # a worker waits for its graders, and the machine may have other things to do


@pytest.fixture
def dask_processes(tmp_path):
    place = tmp_path / "dask"
    place.mkdir()
    found = DaskProcesses(place)
    yield found
    found.close()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    found = DaskProcesses(tmp_path_factory.mktemp("dask"))
    found.add()
    found.add()
    yield found
    found.close()


def made_course(root, learners):
    shutil.copytree(CASES / "course", root)
    for number in range(learners):
        student = KINDS[number % len(KINDS)]
        shutil.copytree(CASES / "00-control" / "submitted" / student, root / "submitted" / f"{student}-{number:02}")
    return root


def start(course, *options, **environment):
    command = [sys.executable, "-m", "autograder", "grade", "--course", course, "--json", course / "run.json", *options]
    environment = os.environ | {"XDG_CACHE_HOME": str(course.parent / "cache"), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE)


def finish(run):
    _, said = run.communicate(timeout=200)
    return run.returncode, said


def records(course):
    return json.loads((course / "run.json").read_text())["submissions"]


def results(course):
    return list((course / "grading" / "results" / "ps1").glob("*.json"))


def when_graded(course, number, run):
    """Waits until so many submissions are written, while the run goes on."""
    while len(results(course)) < number:
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.002)


def graded_on(course):
    """The workers that have graded something so far."""
    notebooks = (json.loads(path.read_text())["notebooks"] for path in results(course))
    return {notebook["graded_on"]["worker"] for found in notebooks for notebook in found}


def slowed_down(course):
    """The course with notebooks that take a second, so that no worker is done before another has begun."""
    for path in course.glob("submitted/*/ps1/problem1.ipynb"):
        notebook = nbformat.read(path, 4)
        notebook.cells.append(nbformat.v4.new_code_cell("import time\ntime.sleep(1)"))
        nbformat.write(notebook, path)
    return course


def assert_same_grades(ours, theirs):
    its, other = rows(Folders(ours)), rows(Folders(theirs))
    for table in other:
        assert its[table] == other[table], table
    scores = [
        {record["student"]: {name: cell["score"] for name, cell in record["cells"].items()} for record in records(root)}
        for root in (ours, theirs)
    ]
    assert scores[0] == scores[1]


@pytest.fixture(scope="module")
def local_run(tmp_path_factory):
    course = made_course(tmp_path_factory.mktemp("local") / "course", 16)
    code, said = finish(start(course))
    assert code == 0, said
    return course


# ------------------------------------------------------------------------------------------- real runs, real workers


def test_with_a_worker_killed_half_way_grades_are_those_of_a_local_run(tmp_path, dask_processes, local_run):
    doomed = dask_processes.add()
    dask_processes.add("--nanny")
    course = slowed_down(made_course(tmp_path / "course", 16))
    run = start(course, "--scheduler", dask_processes.file)
    while len(places := graded_on(course)) < 2:
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.05)
    doomed.kill()
    code, said = finish(run)
    assert code == 0, said
    assert "is lost" in said
    assert_same_grades(course, local_run)
    assert len(list((course / "autograded").glob("*/ps1/problem1.ipynb"))) == 16
    assert graded_on(course) == places
    assert {record["graded_on"]["level"] for record in records(course)} <= {"STANDARD", "STRONG"}
    dask_processes.close()
    assert left_over(tmp_path) == []


def test_a_lost_scheduler_ends_the_run_in_words_and_another_goes_on(tmp_path, dask_processes, local_run):
    dask_processes.add()
    course = made_course(tmp_path / "course", 16)
    run = start(course, "--scheduler", dask_processes.file)
    when_graded(course, 3, run)
    dask_processes.scheduler.kill()
    code, said = finish(run)
    assert code == 1
    found = re.search(r"The Dask scheduler at tcp://\S+ was lost: .* (\d+) of 16 submissions are written", said)
    assert found, said
    assert "Traceback" not in said
    assert int(found[1]) == len(results(course)) < 16
    code, said = finish(start(course))
    assert code == 0, said
    assert f"{found[1]} unchanged" in said
    assert_same_grades(course, local_run)


def test_a_killed_coordinator_leaves_no_grader_and_the_next_goes_on(tmp_path, dask_processes, local_run):
    dask_processes.add()
    course = made_course(tmp_path / "course", 16)
    run = start(course, "--scheduler", dask_processes.file)
    when_graded(course, 3, run)
    assert graders(dask_processes.place)
    run.kill()
    run.communicate()
    deadline = time.monotonic() + 30
    while graders(dask_processes.place) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert graders(dask_processes.place) == []
    code, said = finish(start(course, "--scheduler", dask_processes.file))
    assert code == 0, said
    assert " unchanged since the last run" in said
    assert_same_grades(course, local_run)


def graders(place):
    """The processes beside the workers of this place."""
    return [
        pid for pid in processes_of(place) if b"autograder.cluster.grader" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


DEADLY = """
import os
from autograder.cluster import worker

grade = worker.Prepared.grade

def deadly(self, parcel):
    if b"deadly" in parcel:
        os._exit(1)
    return grade(self, parcel)

worker.Prepared.grade = deadly
"""


def test_a_submission_that_ends_its_workers_is_reported_and_costs_no_other(tmp_path, dask_processes, monkeypatch):
    monkeypatch.setattr(coordinator, "TRIES", 2)
    (tmp_path / "deadly").mkdir()
    (tmp_path / "deadly" / "sitecustomize.py").write_text(DEADLY)
    for _ in range(3):
        dask_processes.add(PYTHONPATH=str(tmp_path / "deadly"))
    course = made_course(tmp_path / "course", 7)
    (course / "submitted" / "naive-04").rename(course / "submitted" / "deadly")
    given = prepared_run(course)
    with opened(str(dask_processes.file), given.settings, given.masters, False, False) as cluster:
        outcomes = {submission.student: outcome for submission, outcome in cluster.grade(given.submissions)}
    assert outcomes.pop("deadly").startswith(
        "Each of 2 workers that graded it was lost, or sent what cannot be used (tcp://"
    )
    assert len(outcomes) == 6
    assert {result["status"] for outcome in outcomes.values() for result, _, _ in outcome} == {"graded"}


LIAR = """
import json, os, pathlib, time
from autograder.cluster import worker

grade, kept, lied = worker.Prepared.grade, [], pathlib.Path(os.environ["LIED"])

def honest(self, parcel):
    end = time.monotonic() + 120  # so that the other worker is given something, however slow its start
    while not lied.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return grade(self, parcel)

def lying(self, parcel):
    kind = os.environ["LIES"]
    answer = json.loads(grade(self, parcel))
    kept.append(answer["results"])
    if kind == "another learner" and len(kept) == 1:
        return json.dumps(answer).encode()
    lied.touch()
    if kind == "garbage":
        return b"\\x80garbage"
    if kind == "ready":
        return self._first
    if kind == "another token":
        answer["token"] = "0" * 32
    if kind == "another learner":
        answer["results"] = kept[0]
    return json.dumps(answer).encode()

worker.Prepared.grade = lying if os.environ["LIES"] else honest
"""


@pytest.fixture
def add_liar(tmp_path, dask_processes):
    """Adds a worker that lies in this way, or that waits with its answers until one has lied."""
    (tmp_path / "liar").mkdir()
    (tmp_path / "liar" / "sitecustomize.py").write_text(LIAR)
    return lambda lie: dask_processes.add(PYTHONPATH=str(tmp_path / "liar"), LIED=str(tmp_path / "lied"), LIES=lie)


# What is refused is proved below answer by answer; here, what becomes of who sent it.
@pytest.mark.parametrize(
    "lie",
    ["another learner", *(pytest.param(lie, marks=pytest.mark.long) for lie in ("garbage", "ready", "another token"))],
)
def test_what_a_lying_worker_sends_is_refused_named_and_graded_elsewhere(
    tmp_path, dask_processes, add_liar, capsys, lie
):
    add_liar(lie)
    add_liar("")
    given = prepared_run(made_course(tmp_path / "course", 8))
    with opened(str(dask_processes.file), given.settings, given.masters, False, False) as cluster:
        outcomes = {submission.student: outcome for submission, outcome in cluster.grade(given.submissions)}
    assert len(outcomes) == 8
    assert {result["student"] for ((result, _, _),) in outcomes.values()} == outcomes.keys()
    said = capsys.readouterr().err
    (liar,) = re.findall(r"worker (tcp://\S+) sent what cannot be used for \d+ submissions", said)
    used = {result["graded_on"]["worker"] for ((result, _, _),) in outcomes.values()}
    assert used - {liar}
    assert liar not in used or lie == "another learner"


def test_of_a_worker_that_alone_sends_nothing_to_be_used_each_submission_is_told(tmp_path, dask_processes, add_liar):
    add_liar("garbage")
    (outcome,) = [outcome for _, outcome in grade_one(tmp_path, dask_processes)]
    assert re.match(r"Each of 3 workers that graded it was lost, or sent what cannot be used \(tcp://", outcome)
    assert "the answer is none" in outcome


# ------------------------------------------------------------------------------------------------ what is not there


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://127.0.0.1:9", "No Dask scheduler answers at tcp://127.0.0.1:9"),
        ("carrier-pigeon://127.0.0.1:9", "No Dask scheduler answers at carrier-pigeon://127.0.0.1:9"),
        ("nowhere.json", "There is no scheduler file nowhere.json"),
    ],
)
def test_a_wrong_address_is_said(tmp_path, monkeypatch, address, said):
    import dask

    given = prepared_run(made_course(tmp_path / "course", 1))
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(GradingError, match=re.escape(said)),
        opened(address, given.settings, given.masters, False, False),
    ):
        pass


def test_a_file_without_an_address_is_said(tmp_path):
    (tmp_path / "file.json").write_text("{}")
    with pytest.raises(GradingError, match="holds no address"):
        coordinator.address_of(str(tmp_path / "file.json"))


def test_the_command_says_what_is_wrong_and_ends_with_1(tmp_path):
    course = made_course(tmp_path / "course", 1)
    environment = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    code, said = finish(start(course, "--scheduler", "tcp://127.0.0.1:9", **environment))
    assert code == 1
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in said
    assert "Traceback" not in said


def test_a_scheduler_without_workers_is_given_up_in_time(tmp_path, dask_processes):
    import dask

    given = prepared_run(made_course(tmp_path / "course", 1))
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1s"}),
        opened(str(dask_processes.file), given.settings, given.masters, False, False) as cluster,
        pytest.raises(GradingError, match=r"has had no worker for 1 s.*0 of 1 submissions are written"),
    ):
        list(cluster.grade(given.submissions))


def test_a_worker_with_another_version_is_refused(tmp_path, two_workers, monkeypatch):
    here = Installed.here()
    monkeypatch.setattr(Installed, "here", lambda: replace(here, versions=here.versions | {"torch": "0.0"}))
    with pytest.raises(GradingError, match=r"installed there: torch [\d.]+\S*, not 0\.0\."):
        grade_one(tmp_path, two_workers)


def test_a_worker_without_the_course_is_refused(tmp_path, dask_processes):
    (tmp_path / "other" / "autograder").mkdir(parents=True)
    (tmp_path / "other" / "autograder" / "__init__.py").touch()
    dask_processes.add(PYTHONPATH=str(tmp_path / "other"))
    with pytest.raises(GradingError, match=r"ModuleNotFoundError: No module named 'autograder\.cluster'"):
        grade_one(tmp_path, dask_processes)


def test_another_module_is_named():
    here = Installed.here()
    other = replace(here, modules=here.modules | {"autograder/cluster/worker.py": "", "autograder/new.py": ""})
    assert here.differences(here) == ""
    assert here.differences(other) == "autograder/cluster/worker.py; autograder/new.py"


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "autograder.cluster.coordinator")
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(GradingError, match="needs the extra `cluster`, and dask is not installed"):
        opened("tcp://127.0.0.1:9", None, None, False, False)


def test_only_so_many_submissions_are_under_way(tmp_path, two_workers, monkeypatch):
    read, most, done = [], [], 0
    original = HandedIn.read
    monkeypatch.setattr(HandedIn, "read", lambda submission: read.append(submission) or original(submission))
    given = prepared_run(made_course(tmp_path / "course", 15))
    with opened(str(two_workers.file), given.settings, given.masters, False, False) as cluster:
        for _ in cluster.grade(given.submissions):
            done += 1
            most.append(len(read) - done)
    assert done == 15
    assert max(most) <= 2 * (1 + coordinator.AHEAD)


# -------------------------------------------------------------------------------------------------------- one machine


class Given:
    """What a run over a course begins with."""

    def __init__(self, root):
        folders = Folders(root)
        names = sorted(path.name for path in (root / "submitted").iterdir())
        self.masters = {"ps1": Master.of(folders, "ps1")}
        self.settings = grading._settings(folders, ["ps1"], Limits(), grading.Options())
        self.submissions = [Submission("ps1", name, root / "submitted" / name / "ps1", "stamp") for name in names]


def prepared_run(root):
    return Given(root)


def grade_one(tmp_path, dask_processes):
    given = prepared_run(made_course(tmp_path / "course", 1))
    with opened(str(dask_processes.file), given.settings, given.masters, False, False) as cluster:
        return list(cluster.grade(given.submissions))


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return prepared_run(made_course(tmp_path_factory.mktemp("given") / "course", 3))


def prepared(given, level="STANDARD"):
    run = Run.of(given.settings, given.masters, False, level)
    return worker.Prepared(parcels.packed(Installed.here()), parcels.packed(run), "here")


def test_a_grader_that_ended_is_told_and_replaced(given):
    graders = prepared(given)
    assert isinstance(parcels.answer_in(graders.first_answer()), parcels.Ready)
    parcel = parcels.packed(HandedIn.read(given.submissions[0]))
    (grader,) = graders._idle
    os.kill(grader._process.pid, signal.SIGKILL)
    lost = parcels.answer_in(graders.grade(parcel))
    assert isinstance(lost, parcels.Lost)
    assert "ended with status -9" in lost.reason
    assert isinstance(parcels.answer_in(graders.grade(parcel)), Results)
    (grader,) = graders._idle
    del graders
    assert grader._process.returncode == 0


def test_a_sandbox_that_is_weaker_than_asked_is_refused_with_its_reason(given):
    answer = parcels.answer_in(prepared(given, "STRONG").first_answer())
    assert isinstance(answer, parcels.Refused)
    assert re.match(r"Its sandbox is STANDARD and has to be STRONG: .*private root off: not asked for", answer.reason)


def test_what_dask_moves_says_that_there_is_no_grader(given):
    kind, arguments = worker.Prepared.__reduce__(None)
    moved = kind(*arguments)
    for answer in (moved.first_answer(), moved.grade(b"")):
        assert isinstance(parcels.answer_in(answer), parcels.Refused)


@pytest.mark.parametrize("case", sorted(path.parent.name for path in CASES.glob("*/submitted")))
def test_a_submission_is_taken_the_same_after_it_has_travelled(case, given):
    master = given.masters["ps1"]
    for folder in sorted((CASES / case / "submitted").glob("*/ps1")):
        travelled = parcels.unpacked(parcels.packed(HandedIn.read(Submission("ps1", "s", folder, ""))), HandedIn)
        assert take(travelled.folder, master) == take(folder, master)


def test_strange_names_and_links_travel_with_their_remarks(tmp_path, given):
    folder = tmp_path / "ps1"
    shutil.copytree(CASES / "00-control" / "submitted" / "good" / "ps1", folder)
    (folder / "link.csv").symlink_to("/etc/passwd")
    (folder / os.fsdecode(b"problem1\xff.ipynb")).write_text("{}")
    (folder / "data").mkdir()
    (folder / "data" / "values.csv").write_bytes(b"\x00\xff")
    handed_in = HandedIn.read(Submission("ps1", "s", folder, ""))
    travelled = parcels.unpacked(parcels.packed(handed_in), HandedIn)
    here, there = take(folder, given.masters["ps1"]), take(travelled.folder, given.masters["ps1"])
    assert there == here
    assert any("symbolic link" in flag for flag in there[0].flags)
    assert handed_in.files_beside(given.masters["ps1"]) == there[0].files


# -------------------------------------------------------------------------------------------------- what comes back


PLACE = Place("tcp://a:1", "host", "STANDARD")


@pytest.fixture(scope="module")
def graded(given):
    """The good submission, what the engine makes of it, and the same as an answer."""
    submission = next(one for one in given.submissions if one.student.startswith("good"))
    job = Job(given.settings, given.masters)
    try:
        outcomes = job.grade(submission)
    finally:
        job.close()
    return submission, outcomes, parcels.answered(parcels.results_of(outcomes, PLACE, "token"))


def accepted(given, submission, data):
    answer = parcels.answer_in(data)
    return parcels.outcome(answer, Sent(submission, "token", PLACE.worker, {}), given.masters["ps1"], given.settings)


def test_results_arrive_as_the_engine_made_them(given, graded):
    submission, outcomes, data = graded
    (result, node, _), (result_there, node_there, _) = outcomes[0], accepted(given, submission, data)[0]
    assert result_there.pop("graded_on") == {"worker": "tcp://a:1", "host": "host", "level": "STANDARD"}
    assert (result_there, node_there) == (result, node)


DAMAGES = {
    "another learner": lambda result, node: result.update(student="somebody else"),
    "another worker": lambda result, node: result["graded_on"].update(worker="tcp://b:1"),
    "another form of notebook": lambda result, node: node.update(nbformat="4"),
    "depths": lambda result, node: node["metadata"].update(deep=nested(900)),
    "another seed": lambda result, node: result.update(seed="00"),
    "another version": lambda result, node: result["versions"].update(torch="0.0"),
    "an unknown status": lambda result, node: result.update(status="excellent"),
    "more than all points": lambda result, node: first(result).update(score=100.0),
    "less than none": lambda result, node: first(result).update(score=-1.0),
    "no number": lambda result, node: first(result).update(score=float("nan")),
    "a score in words": lambda result, node: first(result).update(score="all"),
    "other points": lambda result, node: first(result).update(max=100.0),
    "a missing cell": lambda result, node: result["cells"].popitem(),
    "one cell more": lambda result, node: result["cells"].update(extra=first(result)),
    "another notebook": lambda result, node: result.update(notebook="../problem1"),
    "endless time": lambda result, node: result.update(seconds=float("inf")),
    "repairs that are no sentences": lambda result, node: result.update(repairs=[1]),
    "graded without a notebook": lambda result, node: result.update(status="unreadable"),
    "a notebook without cells": lambda result, node: node.pop("cells"),
    "a cell without a role": lambda result, node: node["cells"][0]["metadata"].clear(),
    "an output that is none": lambda result, node: node["cells"][0].update(outputs=[{"output_type": "x"}]),
}


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


def first(result):
    return next(iter(result["cells"].values()))


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_answer_that_is_none_is_refused(given, graded, damage):
    submission, _, data = graded
    plain = json.loads(data)
    DAMAGES[damage](plain["results"][0], plain["notebooks"][0])
    with pytest.raises(BadParcel):
        accepted(given, submission, json.dumps(plain).encode())


def test_the_answer_to_another_sending_is_refused(given, graded):
    submission, _, data = graded
    with pytest.raises(BadParcel, match="answer to something else"):
        accepted(given, submission, json.dumps(json.loads(data) | {"token": "another"}).encode())


def test_what_no_result_has_is_left_out(given, graded):
    submission, _, data = graded
    plain = json.loads(data)
    plain["results"][0]["more"] = first(plain["results"][0])["more"] = "than asked"
    ((result, _, _),) = accepted(given, submission, json.dumps(plain).encode())
    assert "more" not in result and "more" not in first(result)


def test_whatever_is_changed_in_an_answer_it_is_accepted_whole_or_refused_in_words(given, graded):
    submission, _, data = graded
    dice, refused = random.Random(7), 0
    for _ in range(300):
        plain = json.loads(data)
        for _ in range(dice.randrange(1, 4)):
            damages.litter(plain, dice)
        try:
            accepted(given, submission, json.dumps(plain).encode())
        except BadParcel:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"[]", b'{"kind": "x"}', b"[" * 100_000, "text", None])
def test_bytes_that_are_no_answer_are_refused(data):
    with pytest.raises(BadParcel):
        parcels.answer_in(data)
