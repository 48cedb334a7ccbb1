"""The one error for an option or an argument that does not work."""

import re

from mqstore.errors import OptionError

__all__ = ["HIDDEN_PARAMETER", "bad_argument", "bad_option"]

HIDDEN_PARAMETER = "key|secret|token|password|credential|sig"
"""What a parameter of a URI with a secret value is called: a pattern."""

_SECRET_OPTION = re.compile(r"secret|token|password|credential|access_key|^fs\..*(key|sig)", re.IGNORECASE)
"""What an option with a secret value is called."""
_USER = re.compile(r"""(://)[^\s"'?@]*:[^\s"'?]*@""")
"""Who asks, before the host of a URI: a key may have slashes in it that should have been quoted."""
_VALUE = re.compile(rf"""([?&][^=&\s]*(?:{HIDDEN_PARAMETER})[^=&\s]*=)[^&\s"']*""", re.IGNORECASE)
"""The value of such a parameter, behind its name."""


def _without_secrets(text: str) -> str:
    """A text without what URIs in it say beside places."""
    return _VALUE.sub(r"\1***", _USER.sub(r"\1***@", text))


def bad_option(option: str, value: object, reason: str) -> OptionError:
    """An error that names an option and its value, which is shown as text: so it stands in a file or a command."""
    return _error(option, value, str(value), reason)


def bad_argument(argument: str, value: object, reason: str) -> OptionError:
    """The same for what a program gives: ``'false'`` is not ``False`` there."""
    return _error(argument, value, repr(value), reason)


def _error(option: str, value: object, shown: str, reason: str) -> OptionError:
    is_secret = _SECRET_OPTION.search(option) is not None
    shown, given = ("***", "***") if is_secret else (_without_secrets(shown), _without_secrets(str(value)))
    reason = _without_secrets(reason)
    error = OptionError(f"option {option}={shown}: {reason}")
    error.option, error.value, error.reason = option, given, reason
    return error
