//! Walking the log on several threads: as one thread would, however it is divided.

use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use mqstore_core::commit_log::CommitLog;
use mqstore_core::commit_log::in_parts::{self, Walk};
use mqstore_core::commit_log::scan::scan;
use mqstore_core::error::Error;
use mqstore_core::format::message::{Check, Record};
use mqstore_core::interrupt;
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{config, fields, log_file, patch, record_bytes, walked_parts};
use crate::{SIZE, append, log, log_with};

/// A log of three files, with records of all sizes, of which some hold bytes that look like a record of just
/// that place.
fn made(seed: u64) -> (tempfile::TempDir, crate::Log) {
    let root = tempfile::tempdir().unwrap();
    let log = log(root.path());
    let mut random = fastrand::Rng::with_seed(seed);
    while log.max_offset() < 11_000 {
        let mut body = vec![b'x'; random.usize(..700)];
        if random.u8(..3) == 0 {
            let inside_at = log.max_offset() + SIZE - 4 + body.len() as u64;
            body.extend(record_bytes(&fields("t", 0, b"forged", ""), 9, inside_at));
            body.extend(vec![b'y'; random.usize(..300)]);
        }
        append(&log, 0, &body);
    }
    (root, log)
}

fn of<'a>(log: &'a CommitLog, part_size: u64) -> Walk<'a> {
    let to = log.files().last().unwrap().end_offset();
    Walk {
        files: log.files(),
        from: 0,
        to,
        limit: u64::MAX,
        check: Check::BodyCrc,
        parts: walked_parts(part_size),
    }
}

/// The records of a walk in parts and of what follows it, each part's apart, and where the walk in parts came
/// to.
fn walked(walk: Walk<'_>) -> (Vec<u64>, Vec<Range<u64>>, u64) {
    let mut found = Vec::new();
    let mut ranges = Vec::new();
    let visit = |part: &mut Vec<u64>, offset: u64, _: &Record<'_>| {
        part.push(offset);
        Ok(ControlFlow::Continue(()))
    };
    let reached = in_parts::walk(walk, visit, |range, part: Vec<u64>| {
        assert!(part.iter().all(|offset| range.contains(offset)));
        ranges.push(range);
        found.extend(part);
        Ok(())
    });
    (found, ranges, reached.unwrap())
}

fn one_by_one(log: &CommitLog, from: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let visit = |offset, _: &Record<'_>, _: &[u8]| {
        found.push(offset);
        Ok(ControlFlow::Continue(()))
    };
    scan(log.files(), from, u64::MAX, Check::BodyCrc, visit).unwrap();
    found
}

#[test]
fn a_walk_in_parts_finds_what_one_finds_that_is_not_divided() {
    for seed in 0..40 {
        let (_root, log) = made(seed);
        let expected = one_by_one(&log, 0);
        for part_size in [1, 50, 300, 1000, 4096, 6000] {
            let (mut found, ranges, reached) = walked(of(&log, part_size));
            assert_eq!(reached, log.max_offset(), "seed {seed}, {part_size}");
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "seed {seed}: {ranges:?}");
            found.extend(one_by_one(&log, reached));
            assert_eq!(found, expected, "seed {seed}, parts of {part_size}");
        }
    }
}

#[test]
fn nothing_behind_a_bad_record_is_given() {
    for seed in 0..40 {
        let (root, log) = made(seed);
        let offsets = one_by_one(&log, 0);
        let bad = offsets[fastrand::Rng::with_seed(seed).usize(..offsets.len())];
        // Flipped in the properties' length: the walk can't go past it.
        let file = bad / 4096 * 4096;
        patch(&log_file(root.path(), file), bad - file + 4, |bytes| bytes[0] ^= 1);
        let log = log_with(config(root.path()), Access::MapRead);
        let (mut found, _, reached) = walked(of(&log, 200));
        assert!(reached <= bad, "seed {seed}");
        found.extend(one_by_one(&log, reached));
        let expected: Vec<u64> = offsets.into_iter().filter(|&offset| offset < bad).collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn a_walk_ends_where_it_is_told_to() {
    let (_root, log) = made(0);
    let offsets = one_by_one(&log, 0);
    for to in (0..11_000).step_by(611).chain(offsets.iter().copied()) {
        let (mut found, _, reached) = walked(Walk { to, ..of(&log, 500) });
        assert!(found.iter().all(|&offset| offset < to), "up to {to}");
        found.extend(one_by_one(&log, reached).into_iter().filter(|&offset| offset < to));
        let expected: Vec<u64> = offsets.iter().copied().filter(|&offset| offset < to).collect();
        assert_eq!(found, expected, "up to {to}");
    }
}

#[test]
fn a_walk_ends_with_what_its_visitors_give() {
    let (_root, log) = made(1);
    let offsets = one_by_one(&log, 0);
    let stopped_at = offsets[offsets.len() / 2];
    let mut taken = Vec::new();
    let stop = |part: &mut Vec<u64>, offset: u64, _: &Record<'_>| {
        part.push(offset);
        Ok(if offset == stopped_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let reached = in_parts::walk(of(&log, 300), stop, |_, part: Vec<u64>| {
        taken.extend(part);
        Ok(())
    });
    assert!(matches!(reached, Ok(reached) if reached <= stopped_at));
    assert!(taken.iter().all(|&offset| offset <= stopped_at));

    let fail = |_: &mut u64, offset: u64, _: &Record<'_>| {
        if offset < stopped_at { Ok(ControlFlow::Continue(())) } else { Err(Error::Interrupted) }
    };
    let visit = |_: &mut u64, _: u64, _: &Record<'_>| Ok(ControlFlow::Continue(()));
    assert!(matches!(in_parts::walk(of(&log, 300), fail, |_, _: u64| Ok(())), Err(Error::Interrupted)));
    let refuse = |_: Range<u64>, _: u64| Err(Error::Interrupted);
    assert!(matches!(in_parts::walk(of(&log, 300), visit, refuse), Err(Error::Interrupted)));
    let walk = of(&log, 300);
    let broken_off = interrupt::until(|| true, move || in_parts::walk(walk, visit, |_, _: u64| Ok(())));
    assert!(matches!(broken_off, Err(Error::Interrupted)));

    // Nobody waits for a thread that is gone.
    let panics = |_: &mut u64, _: u64, _: &Record<'_>| panic!("as a defect would");
    let outcome =
        catch_unwind(AssertUnwindSafe(|| in_parts::walk(of(&log, 300), panics, |_, _: u64| Ok(()))));
    assert!(outcome.is_err());
}
