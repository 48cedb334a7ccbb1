"""The store: life cycle, put, get, query, and what is read of it."""
