"""How a verdict is told: as a number, as a table, as text, and as a record for the gradebook."""

import hashlib
import html
import re

MIME = "application/vnd.autogradlab+json"
STATUS_WORDS = {
    "not attempted": "not attempted yet",
    "wrong": "not right yet",
    "partly": "partly right",
    "right": "right",
}


NOT_JUDGED = "not judged while the first is missed"
MAX_CALLS = 8
_AS_TEXT = "<details><summary>As text</summary>"


class CheckFailed(AssertionError):
    """A check that was missed, under nbgrader's Validate; its traceback is the message alone."""

    def _render_traceback_(self):
        return [str(self)]


class CheckResult(float):
    """The points that an answer earned; shows itself as a table, `.text` is the same in words, `.record` as data."""

    def __new__(cls, points: float, record: dict, page: str):
        self = super().__new__(cls, points)
        self.record, self.html = record, page
        return self

    @property
    def text(self) -> str:
        """The verdict in words."""
        return self.record["text"]

    def with_next(self, step) -> "CheckResult":
        """The same verdict, which also says what to do next."""
        text = f"{self.text}\n\n{step.text}"
        page = f'{self.html.rpartition(_AS_TEXT)[0]}<p class="autogradlab-next">{step.html}</p>{_as_text(text)}'
        return CheckResult(float(self), self.record | {"text": text}, page)

    def __repr__(self):
        return f"{float(self):.10g}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self.html, MIME: self.record}


class Told:
    """Tells one verdict, in the order in which a learner can use it."""

    def __init__(self, unit: str, exercise, points: float):
        self.unit, self.exercise, self.points = unit, exercise, points
        self.returned_none = False

    def not_attempted(self, sentence: str) -> CheckResult:
        """The verdict on an answer that is still the stub, or not there."""
        return self._result("not attempted", 0.0, [], [sentence])

    def unusable(self, *sentences: str) -> CheckResult:
        """The verdict on an answer that cannot be used in any case."""
        rows = [(requirement, False, number == 0) for number, requirement in enumerate(self.exercise.requirements)]
        return self._result("wrong", 0.0, rows, sentences)

    def judged(self, verdict, shown: dict | None, times: int) -> CheckResult:
        """The verdict on observations.

        `shown` is the failing case observed with its calls, `times` how often this behaviour was told in a row.
        """
        rows = list(zip(self.exercise.requirements, verdict.met, verdict.judged))
        facts, said, case, raised = [], [], None, None
        if verdict.case is not None:
            case = {
                "index": verdict.case,
                "call": call_lines(shown, verdict.difference),
                "yours": verdict.difference.yours,
                "expected": verdict.difference.expected,
                "difference": verdict.difference.words,
            }
            raised = shown["raised"]
            facts, said = self._case(case, raised, shown["facts"]), self._diagnosis(verdict, times)
        named = [
            {"id": candidate.id, "name": candidate.name, "message": candidate.message, "explains": numbers}
            for candidate, numbers in verdict.diagnosis
        ]
        unexplained = [number for number in verdict.unexplained if verdict.judged[number]]
        more = {"misconceptions": named, "unexplained": unexplained, "case": case}
        told = ("message", "traceback")
        more["raised"] = raised and {key: raised[key] for key in told} | {"type": raised["types"][0]}
        link = self._link(verdict) if times >= 3 else None
        return self._result(verdict.status, verdict.score * self.points, rows, facts, said, link, **more)

    def _case(self, case, raised, facts):
        """The smallest failing case: what was called, what came, what was expected."""
        is_prediction = self.exercise.is_prediction
        lines = [f"For variant {facts['variant']}:" if is_prediction else "The smallest case that shows it:"]
        if case["call"]:
            lines.append(case["call"])
        if raised:
            lines.append(f"raised {raised['types'][0]}: {raised['message']}")
            if raised["traceback"]:
                lines.append(raised["traceback"])
            else:
                lines.append("The case could not go on with what your code returned.")
        else:
            lines += [case["difference"], f"  yours:    {case['yours']}", f"  expected: {case['expected']}"]
        paragraphs = ["\n".join(lines)]
        if self.returned_none:
            paragraphs.append(f"{self.exercise.name} returned None. Is a return missing?")
        elif raised and raised["types"][0] == "NotImplementedError":
            paragraphs.append(
                "The line that raises NotImplementedError is still in your answer. What should stand in its place?"
            )
        return paragraphs

    def _diagnosis(self, verdict, times):
        """What is said about it: nothing more at first, then the question, then all of it."""
        if times == 1 or not verdict.diagnosis:
            if self.returned_none:
                return []
            if self.exercise.is_prediction:
                return ["What did you expect to happen there, and why?"]
            return ["What in your code makes that difference?"]
        if times == 2:
            return [candidate.question for candidate, _ in verdict.diagnosis]
        return [candidate.message for candidate, _ in verdict.diagnosis]

    def _link(self, verdict):
        """The place of the demonstration that treats the first diagnosed misconception: (address, heading).

        A unit that comes later is none yet: units stand in the order of their names.
        """
        places = (candidate.see for candidate, _ in verdict.diagnosis if candidate.see)
        place = next((one for one in places if one.partition("#")[0] <= self.unit), None)
        if place is None:
            return None
        unit, _, anchor = place.partition("#")
        folder = "" if unit == self.unit else f"../{unit}/"
        words = anchor.replace("-", " ")
        if unit != self.unit:
            words += f" (unit {unit.partition('_')[0].lstrip('0')})"
        return f"{folder}{unit}.ipynb#{anchor}", words

    def _result(self, status, score, rows, facts, said=(), link=None, **more) -> CheckResult:
        score = round(score, 6)
        name = self.exercise.name
        head = f"{name}: {STATUS_WORDS[status]}, {score:g} of {self.points:g} point{'s' * (self.points != 1)}."
        lines = [head, *(_row_text(*row) for row in rows)]
        seen_at = [f"Shown in “{link[1]}”."] if link else []
        observed = "\n\n".join(["\n".join(lines), *facts])
        text = "\n\n".join([observed, *said, *seen_at])
        record = {
            "version": 1,
            "unit": self.unit,
            "exercise": name,
            "prediction": self.exercise.is_prediction,
            "status": status,
            "score": score,
            "points": self.points,
            "refereed": False,
            "seed": 0,
            "requirements": [
                {"words": requirement.words, "weight": requirement.weight, "met": met, "judged": judged}
                | {"gate": number == 0}
                for number, (requirement, met, judged) in enumerate(rows)
            ],
            "misconceptions": [],
            "unexplained": [],
            "case": None,
            "raised": None,
            # Of what was observed, not of what is said about it: that depends on how often it was said.
            "behaviour": hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", observed).encode()).hexdigest()[:16],
            "text": text,
        } | more
        return CheckResult(score, record, _page(head, rows, [*facts, *said], link, text))


def call_lines(shown: dict, difference) -> str:
    """The call in which a difference lies; where that is not known, all of the case's calls.

    `shown` is the case observed with its calls.
    """
    texts, count = shown.get("texts", []), shown.get("call_count", 0)
    raised = shown["raised"]
    if raised:
        call = shown.get("raising") if raised["inside"] else None
    else:
        call = _call_of(difference, shown.get("sources", {}))
    if count > 1 and call is not None and 0 <= call < len(texts):
        # What raised ended the case: nobody knows how many calls were to come.
        of = "" if raised else f" of {count}"
        return f"call {call + 1}{of}:\n{texts[call]}"
    more = [f"… {count - MAX_CALLS} calls more …"] if count > MAX_CALLS else []
    return "\n".join(texts[:MAX_CALLS] + more)


def _call_of(difference, sources: dict) -> int | None:
    """The number of the call that returned what differs, or after which an argument does."""
    if difference.call is not None or difference.result is None:
        return difference.call
    place = difference.result + difference.path
    known = [path for path in sources if place.startswith(path) and place[len(path) :][:1] in ("", "[", ".")]
    return sources[max(known, key=len)] if known else None


def _row_text(requirement, met: bool, judged: bool) -> str:
    if not judged:
        return f"  {NOT_JUDGED}: {requirement.words}"
    return f"  {'met   ' if met else 'missed'}  {requirement.words}"


def _outcome(met: bool, judged: bool) -> str:
    if not judged:
        return NOT_JUDGED
    return "<strong>met</strong>" if met else "<strong>missed</strong>"


def prose(text: str) -> str:
    """A sentence as HTML, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _page(head, rows, paragraphs, link, text) -> str:
    """The verdict as HTML that needs no style sheet: words carry every meaning, colours none."""
    parts = ['<div class="autogradlab-check">', f"<p role='status'><strong>{html.escape(head)}</strong></p>"]
    if rows:
        body = "".join(
            f"<tr><th scope='row' style='text-align:left;font-weight:normal'>{prose(requirement.words)}</th>"
            f"<td style='text-align:left'>{_outcome(met, judged)}</td></tr>"
            for requirement, met, judged in rows
        )
        parts.append(
            "<table><thead><tr><th scope='col' style='text-align:left'>What is required</th>"
            f"<th scope='col' style='text-align:left'>Here</th></tr></thead><tbody>{body}</tbody></table>"
        )
    for paragraph in paragraphs:
        first, newline, rest = paragraph.partition("\n")
        parts.append(f"<p>{prose(first)}</p>")
        if newline:
            parts.append(f"<pre style='white-space:pre-wrap;margin-bottom:1em'>{html.escape(rest)}</pre>")
    if link:
        # Colour alone would not tell it from the words around it.
        place = f"<a href='{html.escape(link[0])}' style='text-decoration:underline'>{html.escape(link[1])}</a>"
        # JupyterLab goes to a heading only where the notebook is open already.
        again = " Where that unit opens at its beginning, follow the link again." if link[0].startswith("../") else ""
        parts.append(f"<p>Shown in {place}.{again}</p>")
    return "".join([*parts, _as_text(text)])


def _as_text(text) -> str:
    """The end of a page: all of it as text, folded."""
    return f"{_AS_TEXT}<pre style='white-space:pre-wrap'>{html.escape(text)}</pre></details></div>"
