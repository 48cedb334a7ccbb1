"""The one error for an option or an argument that does not work."""

from mqstore.errors import OptionError

__all__ = ["bad_argument", "bad_option"]


def bad_option(option: str, value: object, reason: str) -> OptionError:
    """An error that names an option and its value, which is shown as text: so it stands in a file or a command."""
    return _error(option, value, str(value), reason)


def bad_argument(argument: str, value: object, reason: str) -> OptionError:
    """The same for what a program gives: ``'false'`` is not ``False`` there."""
    return _error(argument, value, repr(value), reason)


def _error(option: str, value: object, shown: str, reason: str) -> OptionError:
    error = OptionError(f"option {option}={shown}: {reason}")
    error.option, error.value = option, str(value)
    return error
