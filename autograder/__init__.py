"""The instructors' package: it builds, audits, grades and reports."""

import sys

# jsonschema, which nbformat needs, takes this package if it is there and spends 1.1 s on building its parser; without
# it, IRIs in a schema go unchecked, and no notebook has any.
sys.modules.setdefault("rfc3987_syntax", None)
