"""When a submission was handed in, as its timestamp.txt says."""

import datetime
import warnings

from nbgrader.utils import parse_utc

FILE = "timestamp.txt"
#: Bytes of a time, however it is written; a number of a million digits takes minutes to be read.
LONGEST = 200


def handed_in_at(data: bytes | None) -> datetime.datetime | None:
    """The time in UTC, without a zone, as nbgrader keeps it; None for no file and for one that says no time."""
    told = (data or b"").strip()
    if not told or len(told) > LONGEST:
        return None
    text = told.decode("utf-8", errors="replace").removeprefix("\ufeff")
    with warnings.catch_warnings():
        # dateutil warns of a time zone that it does not know, and nbgrader then takes the time for UTC.
        warnings.simplefilter("ignore")
        try:
            return parse_utc(text)
        except (ValueError, ArithmeticError, TypeError, AttributeError):
            return None
