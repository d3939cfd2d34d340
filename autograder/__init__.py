"""The instructors' package: it builds, audits, grades and reports."""
