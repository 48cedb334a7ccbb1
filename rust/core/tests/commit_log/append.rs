//! Appending.

use mqstore_core::commit_log::topic_queue::QueueRef;
use mqstore_core::commit_log::{AppendRefusal, Appended, StoreTime, Wait};
use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::{Check, Decoded, decode};
use mqstore_core::format::sys_flag::{
    TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE,
};
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::stores::{LOG_FILE_SIZE, config, fields, log_file, new_record};
use crate::{Log, SIZE, append, log, log_with};

const QUEUE: QueueRef<'static> = QueueRef { topic: b"t", queue_id: 0 };

fn blank_at(log: &Log, offset: u64) -> Option<i32> {
    match decode(&log.get_bytes(offset, 8).unwrap()?, Check::Structure) {
        Ok(Decoded::Blank { size }) => Some(size),
        _ => None,
    }
}

#[test]
fn records_follow_each_other_and_each_queue_counts_for_itself() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let offsets = [(0, "a"), (1, "bb"), (0, "ccc")].map(|(queue_id, body)| {
        let appended = append(&log, queue_id, body.as_bytes());
        (appended.wrote_offset, appended.wrote_bytes, appended.logics_offset)
    });
    assert_eq!(offsets, [(0, 93, 0), (93, 94, 0), (187, 95, 1)]);
    assert_eq!((log.wrote_offset(), log.max_offset(), log.min_offset()), (282, 282, Some(0)));
    let record = log.get_message(93, 94).unwrap().unwrap();
    let Ok(Decoded::Message(record)) = decode(&record, Check::BodyCrc) else { panic!("a message") };
    assert_eq!((record.body, record.queue_id, record.physical_offset), (&b"bb"[..], 1, 93));
    assert_eq!((record.store_timestamp, log.last_store_timestamp()), (1000, 1000));
}

#[test]
fn a_record_that_leaves_eight_bytes_fits_and_one_byte_more_goes_to_the_next_file() {
    for (more, wrote_offset) in [(0, SIZE), (1, LOG_FILE_SIZE)] {
        let root = tempfile::tempdir().unwrap();
        let log = log(root.path());
        append(&log, 0, b"");
        let body = vec![0; usize::try_from(LOG_FILE_SIZE - 8 - 2 * SIZE).unwrap() + more];
        assert_eq!(append(&log, 0, &body).wrote_offset, wrote_offset);
        let expected = if more == 0 { None } else { i32::try_from(LOG_FILE_SIZE - SIZE).ok() };
        assert_eq!(blank_at(&log, SIZE), expected, "{more} more");
        append(&log, 0, b"");
        if more == 0 {
            assert_eq!(blank_at(&log, LOG_FILE_SIZE - 8), Some(8), "the shortest blank");
        }
    }
}

#[test]
fn what_fits_no_file_is_refused_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, b"");
    let body = vec![0; usize::try_from(LOG_FILE_SIZE - 8 - SIZE).unwrap()];
    assert_eq!(append(&log, 0, &body).wrote_offset, LOG_FILE_SIZE, "just a whole file");
    let end = log.wrote_offset();
    let too_large = vec![0; body.len() + 1];
    let refusal = log.append(&new_record("t", 0, &too_large), Wait::Block).unwrap_err();
    assert!(matches!(refusal, AppendRefusal::FitsNoFile { size: 4089, file_size: 4096 }), "{refusal:?}");
    let half = vec![0; 2000];
    let batch = [new_record("t", 0, &half), new_record("t", 0, &half)];
    assert!(matches!(log.append_batch(&batch, Wait::Block), Err(AppendRefusal::FitsNoFile { .. })));
    assert_eq!((log.wrote_offset(), log.next_queue_offset(QUEUE)), (end, 2));
}

#[test]
fn a_batch_stands_in_one_file() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    append(&log, 0, &[0; 3000]);
    let record = new_record("t", 0, b"of a batch");
    let batch = [record; 10];
    let appended = log.append_batch(&batch, Wait::Block).unwrap();
    assert_eq!(appended[0].wrote_offset, LOG_FILE_SIZE, "ten of them do not fit behind the first");
    let offsets: Vec<_> = appended.iter().map(|appended| appended.logics_offset).collect();
    assert_eq!(offsets, (1..=10).collect::<Vec<_>>());
    assert_eq!(blank_at(&log, 3000 + SIZE), i32::try_from(LOG_FILE_SIZE - 3000 - SIZE).ok());
    assert!(log.append_batch(&[], Wait::Block).unwrap().is_empty());
}

#[test]
fn many_records_of_one_call_go_over_several_files() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let record = new_record("t", 0, &[7; 400]);
    let mut done = Vec::new();
    log.append_all([record; 30], &mut done, Wait::Block).unwrap();
    let in_a_file = (LOG_FILE_SIZE - 8) / (SIZE + 400);
    for (number, appended) in (0..).zip(&done) {
        let expected = number / in_a_file * LOG_FILE_SIZE + number % in_a_file * (SIZE + 400);
        assert_eq!((appended.wrote_offset, appended.logics_offset), (expected, number.cast_signed()));
    }
    assert_eq!(done.len(), 30);
    // What cannot be appended is told behind what was.
    let too_large = vec![0; 5000];
    let records = [record, new_record("t", 0, &too_large), record];
    assert!(log.append_all(records, &mut done, Wait::Block).is_err());
    assert_eq!((done.len(), log.next_queue_offset(QUEUE)), (31, 31));
}

#[test]
fn records_of_one_call_stand_as_one_by_one() {
    let bodies: Vec<Vec<u8>> =
        (0..900).map(|number: usize| format!("{number} ").repeat(number * 7 % 800).into_bytes()).collect();
    let records: Vec<_> = bodies.iter().zip(0..).map(|(body, at)| new_record("t", at % 3, body)).collect();
    let written = |by_call_size: usize, append: &dyn Fn(&Log) -> Vec<Appended>| {
        let root = tempfile::tempdir().unwrap();
        let mapped_file_size_commit_log = 600_000;
        let log = log_with(
            StoreConfig { by_call_size, mapped_file_size_commit_log, ..config(root.path()) },
            Access::MapWrite,
        );
        let done = append(&log);
        assert_eq!(log.wrote_offset(), done.last().unwrap().end_offset());
        let files = (0..3).map(|at| std::fs::read(log_file(root.path(), at * 600_000)).unwrap());
        (done, files.collect::<Vec<_>>())
    };
    let one_by_one =
        written(0, &|log| records.iter().map(|record| log.append(record, Wait::Block).unwrap()).collect());
    let in_one_call = |log: &Log| {
        let mut done = Vec::new();
        log.append_all(records.iter().copied(), &mut done, Wait::Block).unwrap();
        done
    };
    let in_batches = |log: &Log| {
        records.chunks(4).flat_map(|batch| log.append_batch(batch, Wait::Block).unwrap()).collect()
    };
    for by_call_size in [0, 5000, usize::MAX] {
        assert!(written(by_call_size, &in_one_call) == one_by_one, "from {by_call_size} bytes on");
    }
    let batches = written(usize::MAX, &in_batches);
    for by_call_size in [0, 5000] {
        assert!(written(by_call_size, &in_batches) == batches, "batches from {by_call_size} bytes on");
    }
    assert_eq!(batches.0.len(), records.len());
}

#[test]
fn a_caller_that_may_not_wait_is_told_so_and_nothing_happens() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let record = new_record("t", 0, b"");
    assert!(
        matches!(log.append(&record, Wait::Try { now_ms: 0 }), Err(AppendRefusal::WouldBlock)),
        "there is no file"
    );
    assert_eq!((log.wrote_offset(), log.min_offset()), (0, None));
    append(&log, 0, b"");
    let mut wrote = log.wrote_offset();
    while log.append(&record, Wait::Try { now_ms: 0 }).is_ok() {
        wrote += SIZE;
    }
    assert_eq!(log.wrote_offset(), wrote, "the file is full and the next one not made");
    assert!(wrote + SIZE + 8 > LOG_FILE_SIZE);
    assert_eq!(append(&log, 0, b"").wrote_offset, LOG_FILE_SIZE);
    let mut done = Vec::new();
    assert!(log.append_all([record; 100], &mut done, Wait::Try { now_ms: 0 }).is_err());
    assert_eq!(log.wrote_offset(), LOG_FILE_SIZE + SIZE * (1 + done.len() as u64), "those before it are in");
}

/// The store times of appends in turns: one that may wait at 1000, and one that may not, whose caller read 990
/// before and reads 1010 then.
fn times_in_turns(config: StoreConfig) -> [i64; 3] {
    let log = log_with(config, Access::MapWrite);
    let record = new_record("t", 0, b"");
    let of_caller = |now_ms| log.append(&record, Wait::Try { now_ms }).unwrap().store_timestamp;
    [append(&log, 0, b"").store_timestamp, of_caller(990), of_caller(1010)]
}

#[test]
fn what_does_not_wait_has_its_callers_time_and_times_never_run_backwards() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(times_in_turns(config(root.path())), [1000, 1000, 1010]);
    let root = tempfile::tempdir().unwrap();
    let compat = StoreConfig { compat: true, ..config(root.path()) };
    assert_eq!(times_in_turns(compat), [1000; 3], "the clock under the lock, as in 4.9.3");
}

#[test]
fn parts_of_a_transaction_count_in_their_queue_once_committed() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let offset_of = |sys_flag| {
        let mut record = new_record("t", 0, b"");
        record.fields.sys_flag = sys_flag;
        log.append(&record, Wait::Block).unwrap().logics_offset
    };
    append(&log, 0, b"");
    let flags = [TRANSACTION_PREPARED_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE, 0];
    assert_eq!(flags.map(offset_of), [0, 1, 0, 2]);
}

#[test]
fn store_times_stand_still_while_the_clock_is_behind() {
    for compat in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path());
        config.compat = compat;
        let log = log_with(config, Access::MapWrite);
        let time_at = |now| {
            log.clock.set(now);
            append(&log, 0, b"").store_timestamp
        };
        let expected = if compat { [1000, 400, 1001] } else { [1000, 1000, 1001] };
        assert_eq!([1000, 400, 1001].map(time_at), expected);
        let mut kept = new_record("t", 0, b"");
        kept.store_time = StoreTime::Kept(5);
        assert_eq!(log.append(&kept, Wait::Block).unwrap().store_timestamp, 5);
        assert_eq!(log.last_store_timestamp(), 5);
    }
}

#[test]
fn properties_that_depend_on_offsets_are_made_under_the_lock() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let base = new_record("t", 0, b"");
    let light = QueueRef { topic: b"light", queue_id: 0 };
    for expected in ["0", "1"] {
        let appended = log
            .append_with_properties(
                &base,
                &[light],
                Wait::Block,
                |table| table.next_offset(light).to_string().into_bytes(),
                |table| table.set(light, table.next_offset(light) + 1),
            )
            .unwrap();
        let bytes = log.get_message(appended.wrote_offset, appended.wrote_bytes).unwrap().unwrap();
        let Ok(Decoded::Message(record)) = decode(&bytes, Check::BodyCrc) else { panic!("a message") };
        assert_eq!(record.properties, expected.as_bytes());
    }
    let wrote = log.wrote_offset();
    let too_long =
        log.append_with_properties(&base, &[], Wait::Block, |_| vec![b'p'; 32_768], |_| panic!("refused"));
    assert!(matches!(too_long, Err(AppendRefusal::Properties { size: 32_768 })));
    assert_eq!((log.wrote_offset(), log.next_queue_offset(light)), (wrote, 2));
}

#[test]
fn a_file_is_ended_where_it_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    log.end_file(Wait::Block).unwrap();
    assert_eq!(log.wrote_offset(), 0, "an empty file goes on");
    append(&log, 0, b"");
    log.end_file(Wait::Block).unwrap();
    log.end_file(Wait::Block).unwrap();
    assert_eq!((log.wrote_offset(), blank_at(&log, SIZE)), (LOG_FILE_SIZE, Some(4004)));
    assert_eq!(append(&log, 0, b"").wrote_offset, LOG_FILE_SIZE);
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let root = tempfile::tempdir().unwrap();
    let end = {
        let log = log(root.path());
        append(&log, 0, b"first");
        log.wrote_offset()
    };
    for (wrote, size, expected) in
        [(end, 10, end), (end, 3900, LOG_FILE_SIZE), (LOG_FILE_SIZE, 10, LOG_FILE_SIZE)]
    {
        let copy = tempfile::tempdir().unwrap();
        std::fs::create_dir(copy.path().join("commitlog")).unwrap();
        std::fs::copy(log_file(root.path(), 0), log_file(copy.path(), 0)).unwrap();
        let log = log(copy.path());
        log.set_end(wrote, 2000);
        let appended = append(&log, 0, &vec![0; size]);
        assert_eq!((appended.wrote_offset, appended.store_timestamp), (expected, 2000));
        assert_eq!(blank_at(&log, end).is_some(), wrote == end && expected == LOG_FILE_SIZE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_walk_gives_what_was_appended(
        calls in proptest::collection::vec((0..4_usize, proptest::collection::vec(0..600_usize, 1..6)), 1..25)
    ) {
        let root = tempfile::tempdir().unwrap();
        let log = log(root.path());
        let mut expected = Vec::new();
        for (how, sizes) in calls {
            let all: Vec<_> = sizes.iter().map(|size| vec![u8::try_from(size % 251).unwrap(); *size]).collect();
            let records: Vec<_> = all.iter().map(|body| new_record("t", 0, body)).collect();
            match how {
                0 => { log.append(&records[0], Wait::Block).unwrap(); }
                1 => { log.append_batch(&records, Wait::Block).unwrap(); }
                2 => log.append_all(records, &mut Vec::new(), Wait::Block).unwrap(),
                _ => log.end_file(Wait::Block).unwrap(),
            }
            let count = [1, all.len(), all.len(), 0][how];
            expected.extend(all.into_iter().take(count));
        }
        let mut found = Vec::new();
        let end = mqstore_core::commit_log::scan::scan(
            log.files(), 0, log.max_offset(), Check::BodyCrc,
            |offset, record, bytes| {
                assert_eq!(log.get_message(offset, record.total_size).unwrap().unwrap()[..], *bytes);
                assert_eq!(record.queue_offset, i64::try_from(found.len()).unwrap());
                found.push(record.body.to_vec());
                Ok(std::ops::ControlFlow::Continue(()))
            },
        ).unwrap();
        prop_assert_eq!(end, mqstore_core::commit_log::scan::ScanEnd::Reached(log.max_offset()));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn fields_say_their_size() {
    assert_eq!(fields("t", 0, b"", "").record_size() as u64, SIZE);
}
