"""The driver of the real store; see ``README.md``."""
