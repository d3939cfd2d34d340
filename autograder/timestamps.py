"""When a submission was handed in, as its timestamp.txt says."""

import datetime
import warnings

from nbgrader.utils import parse_utc

FILE = "timestamp.txt"


def handed_in_at(data: bytes | None) -> datetime.datetime | None:
    """The time in UTC, without a zone, as nbgrader keeps it; None for no file and for one that says no time."""
    text = (data or b"").decode("utf-8", errors="replace").strip().removeprefix("\ufeff")
    if not text:
        return None
    with warnings.catch_warnings():
        # dateutil warns of a time zone that it does not know, and nbgrader then takes the time for UTC.
        warnings.simplefilter("ignore")
        try:
            return parse_utc(text)
        except (ValueError, OverflowError, TypeError, AttributeError):
            return None
