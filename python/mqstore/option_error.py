"""The one error for an option that does not work."""

from mqstore.errors import OptionError

__all__ = ["bad_option"]


def bad_option(option: str, value: object, reason: str) -> OptionError:
    """An error that names an option and its value."""
    error = OptionError(f"option {option}={value}: {reason}")
    error.option, error.value = option, str(value)
    return error
