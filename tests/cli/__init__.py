"""The mqstore command."""
