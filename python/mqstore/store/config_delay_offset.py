"""``config/delayOffset.json``: how far the messages of each delay level are delivered.

Source: ``DelayOffsetSerializeWrapper``, ``ScheduleMessageService.encode``.
"""

from mqstore.store.config_manager import ConfigManager, Json, checked_int, checked_object

__all__ = ["DelayOffsetManager"]


class DelayOffsetManager(ConfigManager):
    """Offsets by delay level, the first being 1. They change in memory; :meth:`persist` writes them."""

    _table: dict[int, int]

    def decode(self, content: Json) -> None:
        """Takes over ``offsetTable``."""
        table = checked_object("offsetTable", content.get("offsetTable", {})).items()
        offsets = {checked_int("delay level", level): checked_int(f"level {level}", at) for level, at in table}
        for level, offset in offsets.items():
            if level < 1 or offset < 0:
                raise ValueError(f"expected a delay level and its offset, found {level}: {offset}")
        self._table = offsets

    def load(self) -> None:
        """Reads the file again; there are no offsets where there is none."""
        self._table = {}
        super().load()

    def encode(self) -> Json:
        """The whole ``offsetTable``."""
        return {"offsetTable": dict(sorted(self._table.items()))}

    def update_offset(self, delay_level: int, offset: int) -> None:
        """Sets a level's offset. Source: ``updateOffset``."""
        with self._lock:
            self._table[delay_level] = offset

    def offset(self, delay_level: int) -> int | None:
        """A level's offset, where it has one."""
        with self._lock:
            return self._table.get(delay_level)

    def all(self) -> dict[int, int]:
        """All offsets by level."""
        with self._lock:
            return dict(self._table)
