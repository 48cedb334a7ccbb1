"""Tests of ``mqstore.verify``."""
