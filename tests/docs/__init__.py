"""What the documentation says."""
