"""The ``mqstore`` command."""
