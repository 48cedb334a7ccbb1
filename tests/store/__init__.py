"""The store and its parts."""
