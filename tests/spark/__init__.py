"""Stores on Spark."""
