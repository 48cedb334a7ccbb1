//! What a writer lets followers see.

use mqstore_core::published::{
    Openings, Progress, Published, PublishedPositions, Unchanged, Withheld, log_file_size, path,
};

use crate::stores::fs;

const FIRST: PublishedPositions =
    PublishedPositions { pid: 42, opened_ms: 1000, wrote: 30, flushed: 20, dispatched: 10 };

fn open(own_dir: &std::path::Path, opened_ms: i64, log: u64, queues: u64) -> Published {
    let first = PublishedPositions { opened_ms, ..FIRST };
    Published::create(&*fs(), own_dir, first, Unchanged { log, queues }, 4096).unwrap()
}

fn openings(own_dir: &std::path::Path) -> Openings {
    Openings::read(&*fs(), own_dir).unwrap()
}

#[test]
fn followers_read_what_the_writer_set() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), None);
    let published = open(root.path(), 1000, 30, 30);
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), Some(FIRST));
    published.set_wrote(300);
    published.set_flushed(200);
    published.set_dispatched(100);
    let expected = PublishedPositions { wrote: 300, flushed: 200, dispatched: 100, ..FIRST };
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), Some(expected));
    published.set_flushed(1 << 40);
    let expected = PublishedPositions { flushed: 300, ..expected };
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), Some(expected), "a bit has changed");
    let again = open(root.path(), 2000, 300, 300);
    again.set_wrote(900);
    let expected = PublishedPositions { opened_ms: 2000, wrote: 900, ..FIRST };
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), Some(expected));
}

#[test]
fn the_size_of_the_log_s_files_is_known_once_a_writer_came_and_no_changed_bit_makes_another() {
    let root = tempfile::tempdir().unwrap();
    let known = || log_file_size(&*fs(), root.path()).unwrap();
    assert_eq!(known(), None);
    drop(open(root.path(), 1000, 30, 30));
    assert_eq!(known(), Some(4096));
    let bytes = std::fs::read(path(root.path())).unwrap();
    for bit in 0..8 * bytes.len() {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(path(root.path()), bytes).unwrap();
        assert!(matches!(known(), None | Some(4096)), "bit {bit}");
    }
    for content in [&b""[..], &[0; 4096], &[0xff; 4096]] {
        std::fs::write(path(root.path()), content).unwrap();
        assert_eq!(known(), None);
    }
}

#[test]
fn files_of_something_else_publish_nothing() {
    let root = tempfile::tempdir().unwrap();
    for content in [&b""[..], b"mqstpub1", &[0xff; 4096]] {
        std::fs::write(path(root.path()), content).unwrap();
        assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), None);
        assert_eq!(openings(root.path()), Openings::default());
    }
    let negative = [&b"mqstpub1"[..], &[0xff; 4000]].concat();
    std::fs::write(path(root.path()), &negative).unwrap();
    let found = Progress::read(&*fs(), root.path()).unwrap().published().unwrap();
    assert_eq!((found.wrote, found.flushed, found.dispatched), (0, 0, 0), "a negative position is none");
    for count in [[0xff; 8], [0x7f; 8]] {
        let mut openings_of = negative.clone();
        openings_of.splice(48..64, b"mqstopen".iter().copied().chain(count));
        std::fs::write(path(root.path()), openings_of).unwrap();
        let of_nobody = openings(root.path()).unchanged_since(&Openings::default());
        let nothing = Unchanged { log: 0, queues: 0 };
        assert_eq!(of_nobody, if count == [0xff; 8] { Unchanged::ALL } else { nothing });
        open(root.path(), 1, 5, 5);
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(path(root.path()), path(root.path())).unwrap();
    assert!(Progress::read(&*fs(), root.path()).is_err());
    assert!(Openings::read(&*fs(), root.path()).is_err());
}

#[test]
fn a_new_writer_withholds_what_the_one_before_it_published() {
    let root = tempfile::tempdir().unwrap();
    let own_dir = root.path().join("mqstore");
    let withheld = Withheld::begin(&*fs(), &own_dir).unwrap();
    assert_eq!(Progress::read(&*fs(), &own_dir).unwrap(), Progress::Recovering);
    withheld.undo(&*fs(), &own_dir);
    assert!(!own_dir.exists());
    Withheld::begin(&*fs(), root.path()).unwrap().undo(&*fs(), root.path());
    assert!(!path(root.path()).exists() && root.path().exists());
    drop(open(root.path(), 1000, 30, 30));
    let before = std::fs::read(path(root.path())).unwrap();
    let withheld = Withheld::begin(&*fs(), root.path()).unwrap();
    assert_eq!(Progress::read(&*fs(), root.path()).unwrap().published(), None);
    withheld.undo(&*fs(), root.path());
    assert_eq!(std::fs::read(path(root.path())).unwrap(), before);
}

#[test]
fn what_each_opening_left_as_it_was_is_known_of_the_last_ones() {
    let root = tempfile::tempdir().unwrap();
    let none = openings(root.path());
    assert_eq!(none.unchanged_since(&none), Unchanged::ALL);
    open(root.path(), 1, 500, 400);
    let first = openings(root.path());
    assert_eq!(first.unchanged_since(&first), Unchanged::ALL);
    assert_eq!(first.unchanged_since(&none), Unchanged { log: 500, queues: 400 });
    open(root.path(), 2, 700, 650);
    open(root.path(), 3, 690, 660);
    // A process that went while it recovered leaves them.
    let _withheld = Withheld::begin(&*fs(), root.path()).unwrap();
    let third = openings(root.path());
    assert_eq!(third.unchanged_since(&first), Unchanged { log: 690, queues: 650 });
    assert_eq!(third.unchanged_since(&none), Unchanged { log: 500, queues: 400 });
    let nothing = Unchanged { log: 0, queues: 0 };
    assert_eq!(first.unchanged_since(&third), nothing, "another file");
    for at in 4..67 {
        open(root.path(), at, 1000, 1000);
        let now = openings(root.path());
        assert_eq!(now.unchanged_since(&third), Unchanged { log: 1000, queues: 1000 });
    }
    let last = openings(root.path());
    assert_eq!(last.unchanged_since(&first), nothing, "too long ago");
    std::fs::remove_file(path(root.path())).unwrap();
    for at in 101..104 {
        open(root.path(), at, 9000, 9000);
    }
    assert_eq!(openings(root.path()).unchanged_since(&third), nothing, "another file of as many openings");
}
