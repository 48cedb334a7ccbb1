"""Whether a change of what is in the user's hands was broken off, as Ctrl-C does between any two of its steps."""

from types import TracebackType

__all__ = ["Steps"]


class Steps:
    """A change is made in a ``with`` block of it. Whoever has it has its consumer's lock.

    A signal's handler may make one within another. Ctrl-C that comes while a block is entered or left counts as a
    change that stays under way: then what is left over is looked for each time, and nothing is overlooked.
    """

    def __init__(self) -> None:
        """All is whole."""
        self._under_way = 0
        self._is_broken_off = False

    @property
    def may_be_half_done(self) -> bool:
        """Whether a change is under way, or ended before its last step."""
        return self._is_broken_off or self._under_way > 0

    def are_made_good(self) -> None:
        """What changes that were broken off have left over was taken back."""
        self._is_broken_off = False

    def __enter__(self) -> None:
        """A change begins."""
        self._under_way += 1

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """It has ended, or was broken off."""
        if kind is not None:
            self._is_broken_off = True
        self._under_way -= 1
