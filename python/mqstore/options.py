"""The options of a store, under RocketMQ's names.

Every field of 4.9.3's ``MessageStoreConfig`` is here with its default, and those of ``BrokerConfig``
that concern a store. An option can be given as RocketMQ writes it (``mappedFileSizeCommitLog``) or in
Python's spelling (``mapped_file_size_commit_log``), and both can come from a ``broker.conf`` (``broker_conf.py``).
"""

import dataclasses
import difflib
import ipaddress
import os
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

from mqstore.errors import OptionError
from mqstore.option_error import bad_option
from mqstore.store.byte_ranges import is_remote, resolved

__all__ = [
    "StoreOptions",
    "check_address",
    "is_host",
    "parse_delay_levels",
    "parse_delete_when",
    "snake_case",
    "unknown_option",
]

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CQ_STORE_UNIT_SIZE = 20
_ALL_PERCENT = 100
_MAX_PORT = 65_535
_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1
_EXPECTED = {bool: "true or false", int: "an integer", str: "a text"}
"""How the types of options are told of."""
_LONGS = frozenset(
    {
        "broker_id",
        "flush_delay_offset_interval",
        "mapped_file_size_commit_log",  # the engine says what a file may have
        "max_deliver_distance_ms",
        "os_page_cache_busy_time_out_mills",
        "transaction_check_interval",
        "transaction_time_out",
    }
)
"""Numbers that are a ``long`` in RocketMQ, or here; all others are an ``int`` there."""
_MAX_DELAY_MS = _MAX_LONG // 2
"""So that a delay and the time now are a time."""
_MAX_HA_BODY_SIZE = (4 << 20) - 12
_HOURS_OF_DAY = 24
FilterRow: TypeAlias = tuple[str, Sequence[int], str]
"""Topic, bits and expression of a group's filter, as the engine takes it."""
_PERCENTAGES = (
    "access_message_in_memory_max_ratio",
    "disk_max_used_space_ratio",
    "disk_space_clean_forcibly_ratio",
    "disk_space_warning_level_ratio",
)


def snake_case(name: str) -> str:
    """RocketMQ's spelling of an option in Python's: ``checkCRCOnRecover`` → ``check_crc_on_recover``."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def unknown_option(name: str, value: object, known: Iterable[str]) -> OptionError:
    """An error for an option that does not exist; it names the nearest that does."""
    near = difflib.get_close_matches(snake_case(name), known, 1)
    return bad_option(name, value, "there is no such option" + (f"; {near[0]}?" if near else ""))


def parse_delay_levels(levels: str) -> list[int]:
    """The delay levels of ``messageDelayLevel`` in milliseconds, the first being level 1.

    Raises:
        OptionError: a level is not a number with one of the units s, m, h, d.
    """
    found = []
    for level in levels.split():
        unit = _UNIT_MS.get(level[-1:])
        if unit is None or re.fullmatch(r"[0-9]{1,19}", level[:-1]) is None:
            raise bad_option("messageDelayLevel", levels, f"{level!r} is no number with a unit of s, m, h or d")
        if unit * int(level[:-1]) > _MAX_DELAY_MS:
            raise bad_option("messageDelayLevel", levels, f"{level!r} is longer than {_MAX_DELAY_MS} ms")
        found.append(unit * int(level[:-1]))
    return found


def parse_delete_when(delete_when: str) -> set[int]:
    """The hours of ``deleteWhen``, separated by ``;``.

    Raises:
        OptionError: one is no hour.
    """
    hours = {hour.strip() for hour in delete_when.split(";") if hour.strip()}
    for hour in hours:
        if not hour.isdecimal() or int(hour) >= _HOURS_OF_DAY:
            raise bad_option("deleteWhen", delete_when, f"{hour!r} is no hour from 0 to 23")
    return {int(hour) for hour in hours}


def check_address(option: str, address: str) -> None:
    """Refuses what is no ``host:port``.

    Raises:
        OptionError: names the option.
    """
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise bad_option(option, address, "expected host:port")


def is_host(host: object) -> bool:
    """Whether it is an address with a port as the engine takes it: ``1.2.3.4:5`` or ``[1::2]:5``, of no zone."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})", host) if isinstance(host, str) else None
    if found is None or int(found[3]) > _MAX_PORT:
        return False
    try:
        _ = ipaddress.IPv6Address(found[1]) if found[1] else ipaddress.IPv4Address(found[2])
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """The options of a store. Times are in milliseconds and sizes in bytes unless said otherwise.

    What an option means is RocketMQ's documentation's to say. Those that a store here has no use for
    (its locks are others, it has no DLedger) are accepted, so that a ``broker.conf`` can be given as
    it is; ``enable_d_leger_commit_log`` is refused when it is on.
    """

    # ---- MessageStoreConfig
    store_path_root_dir: str
    store_path_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * _CQ_STORE_UNIT_SIZE
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 << 20
    bit_map_length_consume_queue_ext: int = 64
    flush_interval_commit_log: int = 500
    commit_interval_commit_log: int = 200
    use_reentrant_lock_when_put_message: bool = True
    flush_commit_log_timed: bool = True
    flush_interval_consume_queue: int = 1000
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120_000
    redelete_hanged_file_interval: int = 120_000
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    file_reserved_time: int = 72
    """Hours."""
    put_msg_index_hight_water: int = 600_000
    max_message_size: int = 4 << 20
    check_crc_on_recover: bool = True
    enabled_append_prop_crc: bool = False
    """RocketMQ 5's: each record gets the checksum of all of it as its last property; 4.9.3 reads past it."""
    flush_commit_log_least_pages: int = 4
    commit_commit_log_least_pages: int = 4
    flush_least_pages_when_warm_maped_file: int = 4096
    flush_consume_queue_least_pages: int = 2
    flush_commit_log_thorough_interval: int = 10_000
    commit_commit_log_thorough_interval: int = 200
    flush_consume_queue_thorough_interval: int = 60_000
    max_transfer_bytes_on_message_in_memory: int = 256 << 10
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 << 10
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    """Percent."""
    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_msgs_num_batch: int = 64
    message_index_safe: bool = False
    ha_listen_port: int = 10912
    ha_send_heartbeat_interval: int = 5000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32 << 10
    ha_master_address: str | None = None
    ha_slave_fallbehind_max: int = 256 << 20
    broker_role: str = "ASYNC_MASTER"
    flush_disk_type: str = "ASYNC_FLUSH"
    sync_flush_timeout: int = 5000
    slave_timeout: int = 3000
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000
    clean_file_forcibly_enable: bool = True
    warm_maped_file_enable: bool = False
    offset_check_in_slave: bool = False
    debug_lock_enable: bool = False
    duplication_enable: bool = False
    disk_fall_recorded: bool = True
    os_page_cache_busy_time_out_mills: int = 1000
    default_query_max_num: int = 32
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    enable_d_leger_commit_log: bool = False
    d_leger_group: str | None = None
    d_leger_peers: str | None = None
    d_leger_self_id: str | None = None
    preferred_leader_id: str | None = None
    enable_batch_push: bool = False
    enable_schedule_message_stats: bool = True
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20_000
    enable_schedule_async_deliver: bool = False
    schedule_async_deliver_max_pending_limit: int = 2000
    schedule_async_deliver_max_resend_num2_blocked: int = 3
    # ---- BrokerConfig
    broker_ip1: str = field(default="127.0.0.1", metadata={"broker": True})
    listen_port: int = field(default=10911, metadata={"broker": True})
    broker_id: int = field(default=0, metadata={"broker": True})
    default_topic_queue_nums: int = field(default=8, metadata={"broker": True})
    long_polling_enable: bool = field(default=True, metadata={"broker": True})
    short_polling_time_mills: int = field(default=1000, metadata={"broker": True})
    transaction_time_out: int = field(default=6000, metadata={"broker": True})
    transaction_check_max: int = field(default=15, metadata={"broker": True})
    transaction_check_interval: int = field(default=60_000, metadata={"broker": True})
    enable_calc_filter_bit_map: bool = field(default=False, metadata={"broker": True})
    # ---- mqstore
    disk_space_warning_level_ratio: int = 90
    """Percent of the disk above which no message is taken, where retention runs. A JVM property in 4.9.3."""
    disk_space_clean_forcibly_ratio: int = 85
    """Percent of the disk above which files go whatever their age, where retention runs. As above."""
    max_open_queue_files: int = 512
    """Most files of queues that are open at once, and no more than a quarter of those that the process may have open
    (``ulimit -n``) when the store is opened; colder ones are closed."""
    max_deliver_distance_ms: int = 3650 * 24 * 3_600_000
    """How far ahead a message may be due that is put with ``deliver_at``: ten years."""
    max_timed_in_memory: int = 1 << 18
    """Most such messages that wait in memory, those that are due first; any number waits in the store."""
    ha_listen_host: str = "127.0.0.1"
    """Where slaves are listened for: this machine alone; ``0.0.0.0`` is everywhere, as in 4.9.3."""

    def __post_init__(self) -> None:
        """Refuses values that contradict each other or are out of range.

        Raises:
            OptionError: names the option and its value.
        """
        for name, allowed in (
            ("broker_role", ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")),
            ("flush_disk_type", ("ASYNC_FLUSH", "SYNC_FLUSH")),
        ):
            if getattr(self, name) not in allowed:
                raise bad_option(name, getattr(self, name), f"expected one of {', '.join(allowed)}")
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if isinstance(value, int) and not isinstance(value, bool):
                _check_number(option.name, value)
        if self.enable_d_leger_commit_log:
            raise bad_option("enableDLegerCommitLog", "true", "a DLedger log has another format and is not supported")
        if self.transient_store_pool_enable and self.flush_disk_type == "SYNC_FLUSH":
            raise bad_option(
                "transientStorePoolEnable", "true", "it goes with flushDiskType=ASYNC_FLUSH alone, as in 4.9.3"
            )
        self._check_hosts()
        for name in _PERCENTAGES:
            if getattr(self, name) > _ALL_PERCENT:
                raise bad_option(name, getattr(self, name), f"it is a percentage, at most {_ALL_PERCENT}")
        warning, forcibly = self.disk_space_warning_level_ratio, self.disk_space_clean_forcibly_ratio
        if self.clean_file_forcibly_enable and warning < forcibly:
            reason = (
                f"expected at least diskSpaceCleanForciblyRatio, {forcibly}: the store would take no messages before "
                "space is made for them, which cleanFileForciblyEnable=false says that it never is"
            )
            raise bad_option("diskSpaceWarningLevelRatio", warning, reason)
        parse_delete_when(self.delete_when)
        parse_delay_levels(self.message_delay_level)

    def _check_hosts(self) -> None:
        for name, port in (("listenPort", self.listen_port), ("haListenPort", self.ha_listen_port)):
            if port > _MAX_PORT:
                raise bad_option(name, port, f"a port is at most {_MAX_PORT}")
        if not 0 < self.ha_transfer_batch_size <= _MAX_HA_BODY_SIZE:
            reason = f"it is between 1 and {_MAX_HA_BODY_SIZE} bytes, what a slave's buffer holds"
            raise bad_option("haTransferBatchSize", self.ha_transfer_batch_size, reason)
        if self.ha_master_address is not None:
            check_address("haMasterAddress", self.ha_master_address)

    @classmethod
    def of(cls, path: str | os.PathLike[str], given: Mapping[str, object], *, lenient: bool = False) -> Self:
        """Options for a store in a folder, from values under either spelling.

        Values can be text, as a ``broker.conf`` has them. With ``lenient`` names that are no option
        of a store are passed over, as a ``broker.conf`` has many, and so is the folder that it has.

        Raises:
            OptionError: there is no such option, or its value does not work, as that of another folder.
        """
        known = {option.name: option for option in dataclasses.fields(cls)}
        kinds = typing.get_type_hints(cls)
        values: dict[str, Any] = {}
        for name, value in given.items():
            option = snake_case(name)
            if option not in known:
                if lenient:
                    continue
                raise unknown_option(name, value, known)
            if option in values and not lenient:
                raise bad_option(name, value, "it is given under its other spelling as well")
            values[option] = _convert(name, value, kinds[option])
            if option == "store_path_root_dir" and not lenient:
                _check_same_folder(name, values[option], os.fspath(path))
        values["store_path_root_dir"] = _from_here(os.fspath(path))
        for option in ("store_path_commit_log", "read_only_commit_log_store_paths"):
            if values.get(option):
                values[option] = ",".join(map(_from_here, _paths(values[option])))
        return cls(**values)

    @property
    def is_sync_flush(self) -> bool:
        """Whether a put waits for the disk."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def is_slave(self) -> bool:
        """Whether messages come from a master alone."""
        return self.broker_role == "SLAVE"

    @property
    def uses_transient_store_pool(self) -> bool:
        """Whether puts go through locked memory: a slave's bytes never do."""
        return self.transient_store_pool_enable and not self.is_slave

    def commit_log_paths(self) -> list[str]:
        """The folders of the log."""
        given = self.store_path_commit_log
        return _paths(given) if given else [os.path.join(self.store_path_root_dir, "commitlog")]

    def read_only_commit_log_paths(self) -> list[str]:
        """Folders with files of the log in which none is made."""
        return _paths(self.read_only_commit_log_store_paths or "")

    def writable_commit_log_paths(self) -> list[str]:
        """The folders in which files of the log are made."""
        read_only = set(self.read_only_commit_log_paths())
        return [path for path in self.commit_log_paths() if path not in read_only]

    def log_folders(self) -> list[str]:
        """All folders that the log lies in."""
        return [*self.commit_log_paths(), *self.read_only_commit_log_paths()]

    def engine(
        self,
        *,
        compat: bool,
        truncate_on_damage: bool,
        pread: bool,
        filters: Sequence[FilterRow] = (),
        mended_to: int | None = None,
    ) -> "EngineOptions":
        """What the engine goes by."""
        names = {option.name for option in dataclasses.fields(EngineOptions)}
        shared = {name: getattr(self, name) for name in names if hasattr(self, name)}
        rounded_up = -(-self.mapped_file_size_consume_queue // _CQ_STORE_UNIT_SIZE) * _CQ_STORE_UNIT_SIZE
        shared |= {
            "store_path_commit_log": self.commit_log_paths(),
            "read_only_commit_log_store_paths": self.read_only_commit_log_paths(),
            "mapped_file_size_consume_queue": rounded_up,
            "delay_levels_ms": parse_delay_levels(self.message_delay_level),
            "sync_flush": self.is_sync_flush,
            "is_slave": self.is_slave,
            "transient_store_pool_enable": self.uses_transient_store_pool,
            "compat": compat,
            "truncate_on_damage": truncate_on_damage,
            "mended_to": mended_to,
            "pread": pread,
            "filters": list(filters),
        }
        return EngineOptions(**shared)


def _most(name: str) -> int:
    """The largest number that an option can be."""
    return _MAX_LONG if snake_case(name) in _LONGS else _MAX_INT


def _check_number(name: str, value: int) -> None:
    if not 0 <= value <= _most(name):
        raise bad_option(name, value, f"expected an integer from 0 to {_most(name)}")


def _check_same_folder(name: str, root: str, path: str) -> None:
    """Refuses another folder than the one that is given: it would be passed over."""
    if root != path and not _is_same_folder(root, path):
        raise bad_option(name, root, f"expected {path}, which is given as the store's folder")


def _is_same_folder(root: str, path: str) -> bool:
    try:
        return not is_remote(root) and resolved(root) == os.path.realpath(path)
    except OptionError:  # it names none, or one of another machine
        return False


def _from_here(path: str) -> str:
    """A path that stays the same wherever the process goes; links and ``..`` in it are left as they are.

    Raises:
        OptionError: it begins at the current folder, which is gone.
    """
    if is_remote(path) or Path(path).is_absolute():
        return path
    try:
        return os.path.join(Path.cwd(), path)
    except FileNotFoundError:
        raise bad_option("path", path, "it begins at the current folder, which is gone") from None


def _paths(given: str) -> list[str]:
    return [path.strip() for path in given.split(",") if path.strip()]


def _convert(name: str, value: object, kind: Any) -> object:
    if typing.get_origin(kind) is types.UnionType:
        if value is None:
            return None
        kind = typing.get_args(kind)[0]
    if kind is bool and isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if kind is int and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value.strip()):
        return int(value)
    if kind is int and isinstance(value, str | float):
        raise bad_option(name, value, f"expected an integer from 0 to {_most(name)}")
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise bad_option(name, value, f"expected {_EXPECTED[kind]}, found {type(value).__name__}")


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What the engine goes by; see the engine's ``StoreConfig``."""

    store_path_root_dir: str
    store_path_commit_log: list[str]
    read_only_commit_log_store_paths: list[str]
    mapped_file_size_commit_log: int
    mapped_file_size_consume_queue: int
    enable_consume_queue_ext: bool
    mapped_file_size_consume_queue_ext: int
    message_index_enable: bool
    message_index_safe: bool
    max_hash_slot_num: int
    max_index_num: int
    max_message_size: int
    max_msgs_num_batch: int
    check_crc_on_recover: bool
    enabled_append_prop_crc: bool
    enable_lmq: bool
    enable_multi_dispatch: bool
    max_lmq_consume_queue_num: int
    duplication_enable: bool
    delay_levels_ms: list[int]
    max_deliver_distance_ms: int
    max_timed_in_memory: int
    enable_calc_filter_bit_map: bool
    filters: list[FilterRow]
    transient_store_pool_enable: bool
    transient_store_pool_size: int
    fast_fail_if_no_buffer_in_store_pool: bool
    warm_maped_file_enable: bool
    sync_flush: bool
    flush_commit_log_timed: bool
    is_slave: bool
    max_transfer_bytes_on_message_in_memory: int
    max_transfer_count_on_message_in_memory: int
    max_transfer_bytes_on_message_in_disk: int
    max_transfer_count_on_message_in_disk: int
    access_message_in_memory_max_ratio: int
    os_page_cache_busy_time_out_mills: int
    offset_check_in_slave: bool
    compat: bool
    truncate_on_damage: bool
    mended_to: int | None
    pread: bool
    max_open_queue_files: int
