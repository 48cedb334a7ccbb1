"""Stores whose writer was killed."""
