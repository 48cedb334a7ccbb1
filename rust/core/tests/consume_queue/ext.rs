//! Queues with an extension.

use mqstore_core::format::cq_ext_unit::is_ext_addr;
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::java_string::hash_code;
use mqstore_core::store::{Mode, Subscription};

use crate::stores::{Opened, bodies_of, config, crash, log_file, open_with, patch, put, tree, try_open};

fn open(root: &std::path::Path) -> Opened {
    let mut config = config(root);
    config.enable_consume_queue_ext = true;
    open_with(config)
}

fn put_tagged(store: &Opened, numbers: std::ops::Range<usize>) {
    for number in numbers {
        put(store, "t", 0, format!("{number}").as_bytes(), &format!("TAGS\x01T{}", number % 3));
    }
}

fn check(store: &Opened, count: u64) {
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    assert_eq!(queue.max_offset_in_queue(), count);
    for index in 0..count {
        let unit = queue.unit(index).unwrap().unwrap();
        assert!(is_ext_addr(unit.tags_code), "unit {index}");
        let hash = i64::from(hash_code(format!("T{}", index % 3).as_bytes()));
        assert_eq!(queue.tags_code(&unit).unwrap(), Some(hash), "unit {index}");
        assert_eq!(queue.ext(unit.tags_code).unwrap().unwrap().msg_store_time, 1_000_000);
    }
    let subscription = Subscription::parse("T1").unwrap();
    let got = store.get_message("t", 0, 0, 32, Some(&subscription)).unwrap();
    assert!(bodies_of(&got).iter().all(|body| body.parse::<u64>().unwrap() % 3 == 1));
    assert!(!got.messages.is_empty());
}

#[test]
fn units_of_the_extension_are_found_over_files_closings_and_crashes() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_tagged(&store, 0..23); // files of 100 bytes hold four of twenty
    check(&store, 23);
    store.close().unwrap();
    let store = open(root.path());
    check(&store, 23);
    put_tagged(&store, 23..30);
    store.flush_everything().unwrap();
    put_tagged(&store, 30..40);
    check(&store, 40);
    crash(store);
    let store = open(root.path());
    check(&store, 40);
    store.close().unwrap();
    let before = tree(root.path());
    let mut config = config(root.path());
    config.enable_consume_queue_ext = true;
    check(&try_open(config, Mode::Read).unwrap(), 40);
    assert_eq!(tree(root.path()), before);
}

/// 4.9.3 starts on no store with files of other lengths than it is told.
#[test]
fn files_of_the_extension_are_as_large_as_those_that_are_there() {
    for given in [48 << 20, 70] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_tagged(&store, 0..23);
        store.close().unwrap();
        let mut config = config(root.path());
        config.enable_consume_queue_ext = true;
        config.mapped_file_size_consume_queue_ext = given;
        check(&try_open(config.clone(), Mode::Read).unwrap(), 23);
        let store = open_with(config.clone());
        check(&store, 23);
        put_tagged(&store, 23..30);
        put(&store, "another", 0, b"", "");
        store.close().unwrap();
        let files: Vec<_> = tree(&root.path().join("consumequeue_ext")).into_values().flatten().collect();
        assert_eq!(files.len(), 9);
        assert!(files.iter().all(|file| file.len() == 100), "{given}");
        check(&open_with(config), 30);
    }
}

/// 4.9.3 starts on no store with a file that is empty.
#[test]
fn a_file_that_a_crash_left_empty_goes_though_units_before_it_are_dispatched_again() {
    for number in 0..8 {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        put_tagged(&store, 0..5);
        store.log().flush(0).unwrap();
        drop(store);
        let folder = root.path().join("consumequeue_ext/t/0");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::File::options()
            .create_new(true)
            .write(true)
            .open(folder.join(format!("{:020}", number * 100)))
            .unwrap();
        let store = open(root.path());
        check(&store, 5);
        store.close().unwrap();
        let files: Vec<_> = tree(&root.path().join("consumequeue_ext")).into_values().flatten().collect();
        assert!(files.iter().all(|file| file.len() == 100), "{number}");
    }
}

#[test]
fn a_unit_of_another_topics_message_has_its_tag_in_itself() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    (config.enable_consume_queue_ext, config.enable_lmq, config.enable_multi_dispatch) = (true, true, true);
    let store = open_with(config.clone());
    put(&store, "t", 0, b"", "TAGS\x01A\x02INNER_MULTI_DISPATCH\x01%LMQ%a");
    store.reput().unwrap();
    let codes = |store: &Opened| ["t", "%LMQ%a"].map(|topic| unit_of(store, topic).tags_code);
    let dispatched = codes(&store);
    assert!(is_ext_addr(dispatched[0]));
    assert_eq!(dispatched[1], i64::from(hash_code(b"A")));
    store.log().flush(0).unwrap();
    crash(store);
    assert_eq!(codes(&open_with(config)), dispatched, "by recovery too");
}

fn unit_of(store: &Opened, topic: &str) -> CqUnit {
    store.find_consume_queue(topic, 0).unwrap().unit(0).unwrap().unwrap()
}

#[test]
fn a_destroyed_queue_takes_its_extension_with_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_tagged(&store, 0..10);
    store.flush_everything().unwrap();
    store.reput().unwrap();
    store.flush_everything().unwrap();
    assert!(root.path().join("consumequeue_ext/t/0").is_dir());
    store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).unwrap();
    assert!(!root.path().join("consumequeue_ext/t").exists());
}

#[test]
fn a_file_of_the_extension_that_recovery_empties_is_removed_where_nothing_is_put_to_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_tagged(&store, 0..3);
    let lost = put(&store, "lost", 0, b"lost", "TAGS\x01T").wrote_offset;
    store.close().unwrap();
    let file_of = |topic| root.path().join("consumequeue_ext").join(topic).join("0/00000000000000000000");
    assert!(file_of("lost").exists());
    patch(&log_file(root.path(), 0), lost, |at| at.fill(0));
    std::fs::remove_file(root.path().join("mqstore/positions")).unwrap();
    std::fs::write(root.path().join("abort"), "").unwrap();
    check(&open(root.path()), 3);
    assert!(file_of("t").exists() && !file_of("lost").exists());
}
