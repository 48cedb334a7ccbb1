//! The statuses of puts.

use std::sync::Arc;

use mqstore_core::clock::Clock;
use mqstore_core::commit_log::Wait;
use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::batch::BatchItem;
use mqstore_core::format::java_hash_map::JavaHashMap;
use mqstore_core::status::{AppendMessageStatus, PutMessageStatus};
use mqstore_core::store::{BatchMessage, Finishing, Mode, NewMessage, Properties, PutStep, Store};

use crate::stores::{
    LOG_FILE_SIZE, bodies, config, fs, log_file, message, open, open_with, put, try_open, try_put,
};

fn status(store: &Store, message: &NewMessage<'_>) -> PutMessageStatus {
    try_put(store, message).map_or_else(|refusal| refusal.status, |_| PutMessageStatus::PutOk)
}

#[test]
fn what_cannot_be_stored_is_illegal_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let topic = "主".repeat(60);
    let long = "p\x01".to_owned() + &"v".repeat(32_766);
    let big = vec![0; 5000];
    let illegal = [
        message(&topic, 0, b"", ""),
        message("", 0, b"", ""),
        message("a/b", 0, b"", ""),
        message("..", 0, b"", ""),
        message("t", -1, b"", ""),
        message("t", 0, b"", &long),
        message("t", 0, &big, ""),
        message("t", 0, b"", "DELAY\x01soon"),
    ];
    for message in &illegal {
        assert_eq!(status(&store, message), PutMessageStatus::MessageIllegal);
    }
    let too_large = try_put(&store, &illegal[6]).unwrap_err();
    assert_eq!(too_large.append, Some(AppendMessageStatus::MessageSizeExceeded));
    assert!(too_large.reason.to_string().contains("log file of 4096 bytes"), "{}", too_large.reason);
    for (name, value) in [("", "v"), ("a\x01", "v"), ("a", "v\x02")] {
        let mut map = JavaHashMap::default();
        map.put(name.as_bytes(), value.as_bytes());
        let message = NewMessage { properties: Properties::Map(map), ..message("t", 0, b"", "") };
        assert_eq!(status(&store, &message), PutMessageStatus::MessageIllegal);
    }
    assert_eq!((store.max_phy_offset(), store.queues().queue_count()), (0, 0));
}

#[test]
fn nobody_puts_to_the_topic_of_timed_messages() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let timed = message("MQSTORE_TIMED_TOPIC", 1, b"", "");
    assert_eq!(status(&store, &timed), PutMessageStatus::MessageIllegal);
    assert!(store.admit_topic(timed.topic).is_err());
    let refused = store.put_many(&[timed.clone()][..], &mut Vec::new(), Wait::Block);
    assert!(matches!(refused, PutStep::Refused(_)), "{refused:?}");
    let batch = BatchMessage { shared: timed, ..batch("", &[(b"a", b"")]) };
    assert!(matches!(store.put_messages(&batch, Wait::Block), PutStep::Refused(_)));
    // A record of a message that waits is kept whole; no other message becomes one.
    put(&store, "t", 0, b"", "MQSTORE_DELIVER_AT\x011001000");
    let record = store.record_at(0).unwrap().unwrap();
    let renamed = Finishing { topic: Some(b"MQSTORE_TIMED_TOPIC"), ..Finishing::default() };
    assert!(store.append_records(&[&record], &renamed, &mut Vec::new()).is_err());
    store.append_records(&[&record], &Finishing::default(), &mut Vec::new()).unwrap();
    assert_eq!(bodies(&store, "MQSTORE_TIMED_TOPIC", 0).len(), 2);
}

#[test]
fn the_largest_message_is_as_large_as_the_option_says() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.max_message_size = 1000;
    let store = open_with(config);
    let body = vec![0; 1000 - 92];
    assert_eq!(put(&store, "t", 0, &body, "").wrote_bytes, 1000);
    let refusal = try_put(&store, &message("t", 0, &[0; 1000 - 91], "")).unwrap_err();
    assert_eq!(refusal.status, PutMessageStatus::MessageIllegal);
    assert!(refusal.reason.to_string().contains("maxMessageSize=1000"), "{}", refusal.reason);
}

/// A put that does not wait has the time that its caller read; what was delivered by a later reading has that one.
#[test]
fn a_message_that_is_due_is_not_stored_before_its_time() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    store.clock.set(999_000);
    put(&store, "t", 0, b"makes the file", "");
    store.clock.set(1_000_000);
    let stored = |properties| match store
        .put_message(&message("t", 0, b"m", properties), Wait::Try { now_ms: 999_990 })
    {
        PutStep::Done(done) => done.appended.store_timestamp,
        refused => panic!("{refused:?}"),
    };
    assert_eq!(stored(""), 999_990);
    assert_eq!(stored("MQSTORE_DELIVER_AT\x011000000"), 1_000_000);
    let due = [message("t", 0, b"m", "MQSTORE_DELIVER_AT\x011000000")];
    let mut done = Vec::new();
    let step = store.put_many(due.as_slice(), &mut done, Wait::Try { now_ms: 999_990 });
    assert!(matches!(step, PutStep::Done(_)));
    assert_eq!(done[0].store_timestamp, 1_000_000);
}

#[test]
fn a_store_that_takes_no_messages_says_why() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let any = message("t", 0, b"", "");
    store.running_flags().set_disk_full(true);
    assert_eq!(status(&store, &any), PutMessageStatus::ServiceNotAvailable);
    store.running_flags().set_disk_full(false);
    assert_eq!(status(&store, &any), PutMessageStatus::PutOk);
    store.close().unwrap();
    assert_eq!(status(&store, &any), PutMessageStatus::ServiceNotAvailable);
    let mut slave = config(root.path());
    slave.is_slave = true;
    let slave = open_with(slave);
    assert!(try_put(&slave, &any).unwrap_err().reason.to_string().contains("brokerRole=SLAVE"));
    drop(slave);
    let reader = try_open(config(root.path()), Mode::Read).unwrap();
    assert!(try_put(&reader, &any).unwrap_err().reason.to_string().contains("mode=\"r\""));
}

#[test]
fn a_delayed_message_remembers_where_it_goes() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 4, b"later", "DELAY\x019");
    let got = store.get_message("SCHEDULE_TOPIC_XXXX", 1, 0, 1, None).unwrap();
    let record = mqstore_core::format::message::decode_record(got.messages.get(0).unwrap().bytes()).unwrap();
    let properties = mqstore_core::format::properties::to_map(record.properties);
    let value = |name: &[u8]| properties.get(name).map(<[u8]>::to_vec);
    assert_eq!(value(b"REAL_TOPIC"), Some(b"t".to_vec()));
    assert_eq!((value(b"REAL_QID"), value(b"DELAY")), (Some(b"4".to_vec()), Some(b"2".to_vec())));
}

#[test]
fn a_store_without_delay_levels_delays_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.delay_levels_ms = Vec::new();
    let store = open_with(config);
    let refusal = try_put(&store, &message("t", 0, b"", "DELAY\x011")).unwrap_err();
    assert_eq!(refusal.status, PutMessageStatus::MessageIllegal);
    assert!(refusal.reason.to_string().contains("messageDelayLevel"), "{}", refusal.reason);
}

fn batch<'a>(properties: &'a str, items: &[(&'a [u8], &'a [u8])]) -> BatchMessage<'a> {
    let items = items.iter().map(|(body, properties)| BatchItem { flag: 3, body, properties });
    BatchMessage { shared: message("t", 0, b"", properties), items: items.collect() }
}

#[test]
fn a_batch_is_visible_at_once_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let step = store.put_messages(&batch("x\x01y", &[(b"a", b"p\x01q"), (b"b", b"")]), Wait::Block);
    let PutStep::Done(done) = step else { panic!("{step:?}") };
    assert_eq!(done.appended.iter().map(|appended| appended.logics_offset).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bodies(&store, "t", 0), ["a", "b"]);
    let end = store.max_phy_offset();
    let big = vec![0; 3000];
    for refused in [
        batch("", &[]),
        batch("DELAY\x011", &[(b"a", b"")]),
        batch("", &[(&big, b""), (&big, b"")]),
        batch(&"p\x01v".repeat(9000), &[(b"a", b"p\x01"), (b"b", &[b'p'; 6000])]),
    ] {
        let step = store.put_messages(&refused, Wait::Block);
        let PutStep::Refused(refusal) = step else { panic!("{step:?}") };
        assert_eq!(refusal.status, PutMessageStatus::MessageIllegal);
    }
    let mut transaction = batch("", &[(b"a", b"")]);
    transaction.shared.sys_flag = 4;
    assert!(matches!(store.put_messages(&transaction, Wait::Block), PutStep::Refused(_)));
    assert_eq!(store.max_phy_offset(), end);
}

#[test]
fn a_synchronous_put_waits_for_its_offset() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.sync_flush = true;
    let store = open_with(config);
    let waits_for = |properties: &str| match store.put_message(&message("t", 0, b"", properties), Wait::Block)
    {
        PutStep::Done(done) => done.wait_for,
        other => panic!("{other:?}"),
    };
    assert_eq!(waits_for(""), Some(store.max_phy_offset()));
    assert_eq!(waits_for("WAIT\x01false"), None);
    assert_eq!(waits_for("WAIT\x01TRUE"), Some(store.max_phy_offset()));
    let end = store.max_phy_offset();
    let status = |timeout| store.wait_flushed(end, std::time::Duration::from_millis(timeout)).unwrap();
    assert_eq!(status(0), PutMessageStatus::FlushDiskTimeout);
    store.group_commit(std::time::Duration::ZERO, &[]).unwrap();
    assert_eq!(status(0), PutMessageStatus::PutOk);
}

#[test]
fn there_are_no_more_light_queues_than_the_option_says() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        (config.enable_lmq, config.enable_multi_dispatch, config.compat) = (true, true, compat);
        config.max_lmq_consume_queue_num = 2;
        let store = open_with(config);
        let put = |number: usize| {
            let properties = format!("INNER_MULTI_DISPATCH\x01%LMQ%{number}");
            let status = status(&store, &message("t", 0, b"", &properties));
            store.reput().unwrap();
            status
        };
        let last = [0, 1, 2, 3].map(put)[3];
        let expected =
            if compat { PutMessageStatus::PutOk } else { PutMessageStatus::LmqConsumeQueueNumExceeded };
        assert_eq!(last, expected);
    }
}

#[test]
fn names_of_statuses_are_4_9_3s() {
    assert_eq!(PutMessageStatus::CreateMapedFileFailed.name(), "CREATE_MAPEDFILE_FAILED");
    assert_eq!(AppendMessageStatus::EndOfFile.name(), "END_OF_FILE");
    assert_eq!(mqstore_core::status::GetMessageStatus::OffsetOverflowOne.name(), "OFFSET_OVERFLOW_ONE");
}

#[test]
fn a_further_queue_that_is_named_twice_gets_a_message_once() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    (config.enable_lmq, config.enable_multi_dispatch) = (true, true);
    let store = open_with(config);
    put(&store, "t", 0, b"0", "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%a");
    put(&store, "t", 0, b"1", "INNER_MULTI_DISPATCH\x01%LMQ%a,t,u,u");
    put(&store, "t", 0, b"2", "INNER_MULTI_DISPATCH\x01%LMQ%a");
    assert_eq!(bodies(&store, "%LMQ%a", 0), ["0", "1", "2"]);
    assert_eq!(bodies(&store, "t", 0), ["0", "1", "2"], "its own topic among the names");
    let next = |topic: &[u8]| store.log().next_queue_offset(QueueRef { topic, queue_id: 0 });
    assert_eq!([&b"%LMQ%a"[..], b"t", b"u"].map(next), [3, 3, 1]);
    let records: Vec<_> = vec![store.record_at(0).unwrap().unwrap(); 2];
    let bytes: Vec<&[u8]> = records.iter().map(|record| &record[..]).collect();
    store.append_records(&bytes, &Finishing::default(), &mut Vec::new()).unwrap();
    assert_eq!([&b"%LMQ%a"[..], b"t", b"u"].map(next), [5, 5, 1], "as finished records too");
    assert_eq!(bodies(&store, "%LMQ%a", 0), ["0", "1", "2", "0", "0"]);
}

#[test]
fn a_further_queue_whose_name_no_folder_can_have_is_refused() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        (config.enable_lmq, config.enable_multi_dispatch, config.compat) = (true, true, compat);
        let store = open_with(config.clone());
        let longest = "x".repeat(255);
        for name in [&format!("{longest}x"), "../a", ".", "a\0"] {
            for others in ["", "\x02DELAY\x011", "\x02MQSTORE_DELIVER_AT\x011001000"] {
                let properties = format!("INNER_MULTI_DISPATCH\x01%LMQ%a,{name}{others}");
                let found = status(&store, &message("t", 0, b"", &properties));
                assert_eq!(found, PutMessageStatus::MessageIllegal, "{properties:?}");
            }
        }
        put(&store, "t", 0, b"0", &format!("INNER_MULTI_DISPATCH\x01a,,{longest}"));
        // A record of another store may have such a name.
        let record = {
            let other = tempfile::tempdir().unwrap();
            let other = open(other.path());
            put(
                &other,
                "t",
                0,
                b"1",
                &format!("INNER_MULTI_DISPATCH\x01{longest}x,a\x02INNER_MULTI_QUEUE_OFFSET\x017,7"),
            );
            other.record_at(0).unwrap().unwrap().to_vec()
        };
        store.append_records(&[&record], &Finishing::default(), &mut Vec::new()).unwrap();
        store.flush_everything().unwrap();
        drop(store);
        let store = open_with(config);
        assert_eq!(bodies(&store, "t", 0), ["0", "1"]);
        assert_eq!(bodies(&store, "a", 0), ["0", "1"]);
        assert_eq!(bodies(&store, &longest, 0), ["0"]);
    }
}

#[test]
fn a_put_that_goes_on_waits_for_what_it_put_before() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.sync_flush = true;
    let store = open_with(config);
    let body = [b'x'; 1500];
    put(&store, "t", 0, &body, "WAIT\x01false");
    let all = [message("t", 0, &body, "WAIT\x01true"), message("t", 0, &body, "WAIT\x01false")];
    let mut done = Vec::new();
    // The second one needs the next file.
    let tried = store.put_many(&all[..], &mut done, Wait::Try { now_ms: 1_000_000 });
    assert!(matches!(tried, PutStep::WouldBlock), "{tried:?}");
    assert_eq!(done.len(), 1);
    let PutStep::Done(step) = store.put_many(&all[..], &mut done, Wait::Block) else { panic!("it may wait") };
    assert_eq!(step.wait_for, Some(store.max_phy_offset()));
}

#[test]
fn what_is_put_before_a_refusal_is_flushed_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let body = [b'x'; 2500];
    std::fs::create_dir(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    let all = [message("t", 0, &body, ""), message("t", 0, &body, "")];
    let mut done = Vec::new();
    let step = store.put_many(&all[..], &mut done, Wait::Block);
    assert!(matches!(step, PutStep::Refused(_)), "{step:?}");
    assert_eq!(done.len(), 1);
    assert!(store.log().wait_flush_requested(std::time::Duration::ZERO));
}

#[test]
fn a_delayed_message_that_will_fit_no_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let topic = "t".repeat(100);
    for waiting in ["DELAY\x011", "MQSTORE_DELIVER_AT\x011001000"] {
        // The topic in which it waits is shorter than its own.
        let longest = (0..LOG_FILE_SIZE).rev().find(|&size| {
            try_put(&store, &message(&topic, 0, &vec![0; usize::try_from(size).unwrap()], waiting)).is_ok()
        });
        assert!(longest.is_some(), "{waiting:?}");
    }
    store.reput().unwrap();
    let delivered = |store: &crate::stores::Opened| {
        store.clock.set(1_002_000);
        let level = store.deliver_level(1, 0, 10).unwrap();
        let timed = store.deliver_timed(10).unwrap();
        assert_eq!((level.undeliverable, timed.undeliverable), (Vec::new(), Vec::new()));
        level.delivered_count + timed.delivered_count
    };
    assert_eq!(delivered(&store), 2);
}

#[test]
fn a_delayed_message_without_room_for_its_offsets_in_further_queues_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut config = StoreConfig { enable_multi_dispatch: true, ..config(root.path()) };
    config.mapped_file_size_commit_log = 1 << 20;
    let store = open_with(config);
    let names = ["a"; 100].join(",");
    let mut sizes = Vec::new();
    for waiting in ["DELAY\x011", "MQSTORE_DELIVER_AT\x011001000"] {
        // Its offsets are among its properties once it is delivered.
        let longest = (0..=32_767).rev().find(|&size| {
            let properties =
                format!("{waiting}\x02INNER_MULTI_DISPATCH\x01{names}\x02v\x01{}", "v".repeat(size));
            try_put(&store, &message("t", 0, b"", &properties)).is_ok()
        });
        sizes.push(longest.unwrap());
    }
    assert!(sizes.iter().all(|size| *size > 29_000), "{sizes:?}");
    store.reput().unwrap();
    store.clock.set(1_002_000);
    let level = store.deliver_level(1, 0, 10).unwrap();
    let timed = store.deliver_timed(10).unwrap();
    assert_eq!((level.undeliverable, timed.undeliverable), (Vec::new(), Vec::new()));
    assert_eq!((bodies(&store, "t", 0).len(), bodies(&store, "a", 0).len()), (2, 2));
}

/// A clock that each look moves by a millisecond: an append looks once it has the log's lock.
#[derive(Debug)]
struct Ticking(std::sync::atomic::AtomicI64);

impl Clock for Ticking {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn who_else_puts_does_not_wait_for_all_of_a_large_call() {
    let root = tempfile::tempdir().unwrap();
    let large = StoreConfig { mapped_file_size_commit_log: 8 << 20, ..config(root.path()) };
    let store = Store::open(large, fs(), Arc::new(Ticking(1_000_000.into())), Mode::ReadWrite).unwrap();
    let all = vec![message("t", 0, b"body", ""); 10_000];
    let mut done = Vec::new();
    assert!(matches!(store.put_many(&all[..], &mut done, Wait::Block), PutStep::Done(_)));
    let times: std::collections::BTreeSet<_> = done.iter().map(|appended| appended.store_timestamp).collect();
    assert_eq!((done.len(), times.len()), (10_000, 3));
    assert_eq!(bodies(&store, "t", 0).len(), 10_000);
}
