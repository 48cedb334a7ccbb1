//! Many messages in one call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mqstore_core::commit_log::{Appended, Wait};
use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, PutStep, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{bodies, config, message, open};

static BODY: [u8; 100 << 10] = [b'x'; 100 << 10];

fn put_many(store: &Store, count: usize) -> (PutStep<()>, Vec<Appended>) {
    let messages: Vec<_> = (0..count).map(|_| message("t", 0, &BODY, "")).collect();
    let mut done = Vec::new();
    (store.put_many(messages.as_slice(), &mut done, Wait::Block), done)
}

#[test]
fn what_is_written_before_a_write_fails_is_told_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let config = StoreConfig { mapped_file_size_commit_log: 16 << 20, ..config(root.path()) };
    let left = Arc::new(AtomicUsize::new(2));
    let counted = Arc::clone(&left);
    let hook: Hook = Box::new(move |call, path| {
        let is_run = matches!(call, Call::Write { len, .. } if len > BODY.len());
        let fails = is_run && path.components().any(|part| part.as_os_str() == "commitlog");
        if fails
            && counted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
        {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    });
    let (store, _) = open_hooked(config.clone(), Mode::ReadWrite, hook);
    // Three of them are written at once.
    let (step, done) = put_many(&store, 10);
    let PutStep::Refused(refusal) = step else { panic!("{step:?}") };
    assert!(refusal.reason.to_string().contains("write"), "{}", refusal.reason);
    assert_eq!((done.len(), left.load(Ordering::SeqCst)), (6, 0));
    let end = done.last().map(Appended::end_offset).unwrap();
    assert_eq!(store.log().wrote_offset(), end);
    let (step, done) = put_many(&store, 1);
    assert!(matches!(step, PutStep::Refused(_)) && done.is_empty(), "a failed write is final");
    assert!(store.close().is_err());
    drop(store);
    let store = open(root.path());
    assert_eq!(bodies(&store, "t", 0).len(), 6);
    assert_eq!(store.max_phy_offset(), end);
}
