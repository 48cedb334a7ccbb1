//! What a writer lets followers see.

use mqstore_core::published::{Published, PublishedPositions, path};

use crate::stores::fs;

#[test]
fn followers_read_what_the_writer_set() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(PublishedPositions::read(&*fs(), root.path()).unwrap(), None);
    let published = Published::create(&*fs(), root.path(), 42, 1000).unwrap();
    published.set_wrote(3);
    published.set_flushed(2);
    published.set_dispatched(1);
    let expected = PublishedPositions { pid: 42, opened_ms: 1000, wrote: 3, flushed: 2, dispatched: 1 };
    assert_eq!(PublishedPositions::read(&*fs(), root.path()).unwrap(), Some(expected));
    let again = Published::create(&*fs(), root.path(), 43, 2000).unwrap();
    again.set_wrote(9);
    let expected = PublishedPositions { pid: 43, opened_ms: 2000, wrote: 9, flushed: 0, dispatched: 0 };
    assert_eq!(PublishedPositions::read(&*fs(), root.path()).unwrap(), Some(expected));
}

#[test]
fn files_of_something_else_publish_nothing() {
    let root = tempfile::tempdir().unwrap();
    for content in [&b""[..], b"mqstpub1", &[0xff; 4096]] {
        std::fs::write(path(root.path()), content).unwrap();
        assert_eq!(PublishedPositions::read(&*fs(), root.path()).unwrap(), None);
    }
    let negative = [&b"mqstpub1"[..], &[0xff; 4000]].concat();
    std::fs::write(path(root.path()), negative).unwrap();
    let found = PublishedPositions::read(&*fs(), root.path()).unwrap().unwrap();
    assert_eq!((found.wrote, found.flushed, found.dispatched), (0, 0, 0), "a negative position is none");
}
