"""Random lives of whole stores, held against a model."""
