"""Small stores to test on."""

from tests.store.conftest import open_store, store

__all__ = ["open_store", "store"]
