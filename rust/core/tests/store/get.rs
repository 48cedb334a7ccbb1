//! The statuses of gets, and what they give.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::interrupt;
use mqstore_core::status::GetMessageStatus as Status;
use mqstore_core::store::{Mode, Store, Subscription};

use crate::hooked::open_hooked;
use crate::stores::{
    LOG_FILE_SIZE, UNITS_IN_FILE, bodies_of, config, fill, log_file, open, open_with, patch, put, read,
};

fn get(store: &Store, offset: i64) -> (Status, i64) {
    let got = store.get_message("t", 0, offset, 32, None).unwrap();
    (got.status, got.next_begin_offset)
}

#[test]
fn offsets_outside_the_queue_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    assert_eq!(get(&store, 5), (Status::NoMessageInQueue, 0));
    fill(&store, 0..60);
    assert_eq!(get(&store, 60), (Status::OffsetOverflowOne, 60));
    assert_eq!(get(&store, 61), (Status::OffsetOverflowBadly, 0));
    assert_eq!(get(&store, -1), (Status::OffsetTooSmall, 0));
    assert_eq!(get(&store, 59), (Status::Found, 60));
    let files = store.log().files().files();
    store.log().files().delete(&files[..1]).unwrap();
    assert_eq!(get(&store, 0).0, Status::MessageWasRemoving);
    store.queues().all()[0].delete_expired_file(store.first_offset()).unwrap();
    let min = store.find_consume_queue("t", 0).unwrap().min_offset_in_queue();
    assert_eq!(get(&store, 0), (Status::OffsetTooSmall, min.cast_signed()));
    assert_eq!(get(&store, 99), (Status::OffsetOverflowBadly, 60));
}

/// A reader that got all it asked for has no reason to ask whether a writer makes units anew.
#[test]
fn a_get_of_the_last_messages_looks_for_no_writer() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..9);
    writer.reput().unwrap();
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let (reader, _) = open_hooked(
        config(root.path()),
        Mode::Read,
        Box::new(move |_, path| {
            counted.fetch_add(usize::from(path.ends_with("published")), Ordering::Relaxed);
            Ok(())
        }),
    );
    let looks_of = |look: &dyn Fn()| {
        let before = looks.load(Ordering::Relaxed);
        look();
        looks.load(Ordering::Relaxed) - before
    };
    for max_count in [9, 32] {
        let get = || {
            let got = reader.get_message("t", 0, 0, max_count, None).unwrap();
            assert_eq!(got.messages.len(), 9);
        };
        assert_eq!(looks_of(&get), 0, "{max_count}");
    }
    assert_ne!(looks_of(&|| reader.refresh().map(drop).unwrap()), 0);
}

/// With more messages than one look takes, what asks for them is told to stop in the middle.
#[test]
fn a_long_get_is_broken_off() {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(StoreConfig { mapped_file_size_consume_queue: 20 * 2000, ..config(root.path()) });
    fill(&store, 0..1500);
    store.reput().unwrap();
    let none = Subscription::parse("none");
    let get = |subscription| store.get_message("t", 0, 0, 1400, subscription);
    let broken_off = interrupt::until(|| true, || get(none.as_ref()));
    assert!(matches!(broken_off, Err(Error::Interrupted)));
    let got = interrupt::until(|| false, || get(none.as_ref())).unwrap();
    assert_eq!((got.status, got.next_begin_offset), (Status::NoMatchedMessage, 1400));
    let short = interrupt::until(|| true, || store.get_message("t", 0, 0, 32, None)).unwrap();
    assert_eq!(short.status, Status::Found, "there is nothing to break off");
}

/// As 4.9.3 tells it: the last thing that a get came by, as long as it has found nothing.
#[test]
fn what_is_not_asked_for_behind_what_was_removed_is_what_is_told() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let put = |number: usize| put(&store, "t", 0, &[0; 80], &format!("TAGS\x01T{number}")).wrote_offset;
    let second = (0..60).find(|&number| put(number) >= LOG_FILE_SIZE).unwrap();
    let last_gone = second - 1;
    assert_ne!(second as u64 % UNITS_IN_FILE, 0, "a get ends where its queue file does");
    store.reput().unwrap();
    let files = store.log().files().files();
    store.log().files().delete(&files[..1]).unwrap();
    let get = |tags: &str| {
        let offset = i64::try_from(last_gone).unwrap();
        store.get_message("t", 0, offset, 32, Subscription::parse(tags).as_ref()).unwrap().status
    };
    assert_eq!(get(&format!("T{last_gone}")), Status::NoMatchedMessage);
    assert_eq!(get(&format!("T{last_gone} || T{second}")), Status::Found);
    assert_eq!(get("absent"), Status::NoMatchedMessage);
}

/// A flipped bit in a unit lets it lead behind the log, or its record reach behind its file: no file was removed.
#[test]
fn a_unit_that_leads_nowhere_hides_no_other_message() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..60);
    store.close().unwrap();
    let units = root.path().join("consumequeue/t/0/00000000000000000200");
    for (at, bit) in [(1, 0x40), (6, 0x80), (8, 0x20), (10, 0x20)] {
        patch(&units, 60 + at, |at| at[0] ^= bit);
        let reader = read(root.path());
        let (mut next, mut found) = (10, Vec::new());
        // A size that is too large fills a get.
        while next < 19 {
            let got = reader.get_message("t", 0, next, 8, None).unwrap();
            found.extend(bodies_of(&got).iter().map(|body| body.parse::<u32>().unwrap()));
            next = got.next_begin_offset;
        }
        assert_eq!(found[..8], [10, 11, 12, 14, 15, 16, 17, 18], "bit {bit} of byte {at}");
        assert_eq!(reader.rejected_count(), 1);
        assert_eq!(reader.rejected()[0].queue_offset, 13);
        patch(&units, 60 + at, |at| at[0] ^= bit);
    }
}

#[test]
fn no_more_is_given_than_asked_for_or_a_transfer_takes() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.max_transfer_in_memory.count = 5;
    config.max_transfer_in_memory.bytes = 1500;
    let store = open_with(config);
    fill(&store, 0..60);
    let count = |wanted| {
        let got = store.get_message("t", 0, 0, wanted, None).unwrap();
        assert_eq!(got.next_begin_offset, i64::try_from(got.messages.len()).unwrap());
        got.messages.len()
    };
    assert_eq!([1, 3, 5, 6, 1000, usize::MAX].map(count), [1, 3, 5, 5, 5, 5]);
    put(&store, "big", 0, &[0; 1000], "");
    put(&store, "big", 0, &[0; 1000], "");
    assert_eq!(store.get_message("big", 0, 0, 9, None).unwrap().messages.len(), 1, "the bytes are full");
}

#[test]
fn tags_are_compared_whole() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for (body, tag) in [("1", "Aa"), ("2", "BB"), ("3", "C"), ("4", "")] {
        let properties = if tag.is_empty() { String::new() } else { format!("TAGS\x01{tag}") };
        put(&store, "t", 0, body.as_bytes(), &properties);
    }
    let found = |expression: &str| {
        let subscription = Subscription::parse(expression);
        bodies_of(&store.get_message("t", 0, 0, 32, subscription.as_ref()).unwrap()).join("")
    };
    assert_eq!(found("Aa"), "1", "`BB` has the same hash");
    assert_eq!((found("BB || C"), found("*"), found("")), ("23".into(), "1234".into(), "1234".into()));
    let none = Subscription::parse("D").unwrap();
    let got = store.get_message("t", 0, 0, 32, Some(&none)).unwrap();
    assert_eq!((got.status, got.next_begin_offset), (Status::NoMatchedMessage, 4));
}

#[test]
fn a_record_that_does_not_check_out_is_counted_and_not_served() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..3);
    store.close().unwrap();
    let at = 190; // in the second record's body
    patch(&log_file(root.path(), 0), at + 100, |at| at[0] ^= 1);
    let reader = read(root.path());
    let got = reader.get_message("t", 0, 0, 32, None).unwrap();
    assert_eq!(got.messages.len(), 2);
    assert_eq!((got.next_begin_offset, reader.rejected_count()), (3, 1));
    assert_eq!(reader.rejected()[0].queue_offset, 1);
}

#[test]
fn a_closed_or_unreadable_store_gives_nothing_and_what_was_given_stays() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..1);
    let got = store.get_message("t", 0, 0, 1, None).unwrap();
    store.running_flags().set_readable(false);
    assert!(matches!(store.get_message("t", 0, 0, 1, None), Err(Error::Option { .. })));
    store.running_flags().set_readable(true);
    store.close().unwrap();
    assert!(matches!(store.get_message("t", 0, 0, 1, None), Err(Error::Closed)));
    std::fs::remove_dir_all(root.path()).unwrap();
    assert_eq!(bodies_of(&got), [format!("{:0>80}", 0)]);
}
