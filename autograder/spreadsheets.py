"""What goes into a CSV that a person will open with a program that computes."""


def inert(value: object) -> object:
    """The value as a spreadsheet takes it for text: learners choose names and words, and one may be a formula.

    Source: OWASP, CSV Injection.
    """
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value
