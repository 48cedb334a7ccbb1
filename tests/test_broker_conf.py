"""broker.conf: which options it gives."""

from pathlib import Path

import pytest

import mqstore
from mqstore.broker_conf import parse_conf


def test_a_broker_conf_is_taken_as_it_is(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "# a broker\nbrokerClusterName = DefaultCluster\nbrokerId=0\nmappedFileSizeCommitLog=65536\n"
        "maxIndexNum: 400\nmaxHashSlotNum=97\nflushDiskType=SYNC_FLUSH\nnamesrvAddr=a:1;\\\nb:2\n"
    )
    assert parse_conf(conf)["namesrvAddr"] == "a:1;b:2"
    with mqstore.open(tmp_path / "store", "rw", conf=conf, maxIndexNum=500) as store:
        assert store.options.is_sync_flush
        assert store.options.mapped_file_size_commit_log == 65_536
        assert store.options.max_index_num == 500
    conf.write_text("no value\n")
    with pytest.raises(mqstore.OptionError, match="line 1"):
        parse_conf(conf)


def test_lines_of_a_conf_are_those_of_javas_properties(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "\ufefffileReservedTime=48\n# was C:\\store\\\ndeleteWhen=02\n! as well\\\n\n"
        "messageDelayLevel=1s \\\n    5s\\\n 10s\n"
        "storePathCommitLog=C\\:\\\\log\\\\\nbroker\\=Name=a\x85\\u0062\n"
    )
    assert parse_conf(conf) == {
        "fileReservedTime": "48",
        "deleteWhen": "02",
        "messageDelayLevel": "1s 5s10s",
        "storePathCommitLog": "C:\\log\\",
        "broker=Name": "a\x85b",
    }
    conf.write_text("a=1\nb=\\\n\\\n2\nno value\\\n")
    with pytest.raises(mqstore.OptionError, match="line 5"):
        parse_conf(conf)
