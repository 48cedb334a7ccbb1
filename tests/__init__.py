"""The tests of the Python package. Run from the repository's root with ``make test``."""
