//! Every entry of an index file, against the key of its message, and every key against its entry.

use std::collections::VecDeque;

use super::{Finding, FindingKind, Findings};
use crate::commit_log::topic_queue::QueueRef;
use crate::consume_queue::NewUnit;
use crate::dispatch::{Derived, derive};
use crate::error::Result;
use crate::format::index::{INVALID_INDEX, IndexEntry, IndexHeader};
use crate::index::Reading;
use crate::index::file::IndexFile;
use crate::log_view::{LogView, Stop};
use crate::num;

/// What an index file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexChecked {
    /// Entries of messages of the log.
    pub entry_count: u64,
    /// Entries whose messages are gone with expired files.
    pub expired_count: u64,
    /// What is wrong.
    pub findings: Findings,
}

/// Checks one of the index files, given oldest first: its header and chains; its entries against the
/// messages of the log up to where the next file begins; and the keys of those against its entries.
///
/// # Errors
/// Where the log can't be read.
pub fn check_index_file(
    view: &LogView,
    files: &[std::sync::Arc<IndexFile>],
    number: usize,
) -> Result<IndexChecked> {
    // Of one that was removed meanwhile the messages are gone.
    let Some(file) = files.get(number).map_or(Ok(None), |file| file.read())? else {
        return Ok(IndexChecked::default());
    };
    let mut done = IndexChecked::default();
    let is_last = number + 1 == files.len();
    if !view.is_live() || !is_last {
        check_chains(&file, &mut done)?;
    }
    // The last file's header and chains change while a writer adds to it, who may have come since.
    if is_last && view.is_written()? {
        done = IndexChecked::default();
    }
    let first_of = |file: &IndexFile| -> Result<Option<u64>> {
        Ok(file.entry(1)?.and_then(|entry| super::place(entry.phy_offset)))
    };
    let mut next = None;
    for later in files.get(number + 1..).unwrap_or_default() {
        next = next.map_or_else(|| first_of(later), |next| Ok(Some(next)))?;
    }
    let from = if number == 0 {
        Some(view.min_offset())
    } else {
        file.entry(1)?.and_then(|entry| super::place(entry.phy_offset))
    };
    let Some(from) = from else { return Ok(done) };
    let mut checker = KeyChecker {
        file,
        number: 1,
        carried: carried(files, number)?,
        extra: extra(files, number, next)?,
        done,
    };
    checker.walk(view, from.max(view.min_offset()), next.unwrap_or_else(|| view.end()))?;
    Ok(checker.done)
}

/// Hashes of the first message's keys that the files before this one have: as many as they take.
fn carried(files: &[std::sync::Arc<IndexFile>], number: usize) -> Result<Vec<(i64, i32)>> {
    let mut found = Vec::new();
    let Some(first) = files.get(number).map_or(Ok(None), |file| file.entry(1))? else { return Ok(found) };
    for previous in files.iter().take(number).rev() {
        for number in (1..previous.index_count()).rev() {
            let entry = previous.entry(number)?;
            let Some(entry) = entry.filter(|entry| entry.phy_offset == first.phy_offset) else {
                return Ok(found);
            };
            found.push((entry.phy_offset, entry.key_hash));
        }
    }
    Ok(found)
}

/// Hashes of the last message's keys that the next files have: it is where the next file's walk begins, so
/// its entries of that message belong to this file's last one.
fn extra(files: &[std::sync::Arc<IndexFile>], number: usize, next: Option<u64>) -> Result<Vec<(i64, i32)>> {
    let mut found = Vec::new();
    let Some(next) = next else { return Ok(found) };
    for file in files.iter().skip(number + 1) {
        for number in 1..file.index_count() {
            let entry = file.entry(number)?;
            let Some(entry) = entry.filter(|entry| super::place(entry.phy_offset) == Some(next)) else {
                return Ok(found);
            };
            found.push((entry.phy_offset, entry.key_hash));
        }
    }
    Ok(found)
}

fn tell(
    done: &mut IndexChecked,
    file: &IndexFile,
    kind: FindingKind,
    phy_offset: Option<u64>,
    detail: String,
) {
    let path = file.path().to_string_lossy().into_owned();
    done.findings.add(kind, || Finding {
        kind,
        path,
        topic: None,
        queue_id: None,
        queue_offset: None,
        phy_offset,
        detail,
    });
}

/// Header and chains say the same as the entries, put one after another, give.
fn check_chains(read: &Reading<'_>, done: &mut IndexChecked) -> Result<()> {
    let file = read.file();
    let shape = file.shape();
    let mut newest = vec![INVALID_INDEX; shape.hash_slot_num as usize];
    let mut slot_count = 0;
    let mut last: Option<IndexEntry> = None;
    for number in 1..file.index_count() {
        let Some(entry) = read.entry(number)? else { break };
        let place = super::place(entry.phy_offset);
        let slot = shape.slot_of(num::int_as_bits(entry.key_hash));
        if entry.key_hash < 0 {
            let detail = format!("entry {number}: expected a hash of at least 0, found {}", entry.key_hash);
            tell(done, file, FindingKind::IndexChain, place, detail);
        }
        if let Some(newest) = newest.get_mut(slot as usize) {
            let previous = num::int_as_bits(entry.prev_index);
            if previous != *newest {
                let detail =
                    format!("entry {number}: expected {newest} before it in its chain, found {previous}");
                tell(done, file, FindingKind::IndexChain, place, detail);
            }
            slot_count += i32::from(*newest == INVALID_INDEX);
            *newest = number;
        }
        if last.is_some_and(|last| last.phy_offset > entry.phy_offset) {
            let detail = format!("entry {number}: its message stands before the one of the entry before it");
            tell(done, file, FindingKind::IndexChain, place, detail);
        }
        last = Some(entry);
    }
    for (slot, &expected) in (0..).zip(&newest) {
        let found = read.slot(slot)?;
        if found != expected {
            let detail = format!("slot {slot}: expected entry {expected}, found {found}");
            tell(done, file, FindingKind::IndexChain, None, detail);
        }
    }
    let header = read.header();
    let (Some(first), Some(last)) = (read.entry(1)?, last) else { return Ok(()) };
    let expected = (first.phy_offset, last.phy_offset, slot_count);
    let IndexHeader { begin_phy_offset, end_phy_offset, hash_slot_count, .. } = header;
    if (begin_phy_offset, end_phy_offset, hash_slot_count) != expected {
        let detail = format!(
            "expected messages from {} to {} in {} slots, found {begin_phy_offset} to {end_phy_offset} in \
             {hash_slot_count}",
            expected.0, expected.1, expected.2
        );
        tell(done, file, FindingKind::IndexHeader, None, detail);
    }
    Ok(())
}

/// Goes through entries and messages side by side.
struct KeyChecker<'a> {
    file: Reading<'a>,
    /// The entry that is looked at next.
    number: u32,
    carried: Vec<(i64, i32)>,
    extra: Vec<(i64, i32)>,
    done: IndexChecked,
}

impl KeyChecker<'_> {
    fn walk(&mut self, view: &LogView, from: u64, to: u64) -> Result<()> {
        // The message at which the next file begins can have its first keys here.
        let behind = to.saturating_add(1).min(view.end());
        let mut position = from;
        self.expire(from)?;
        while position < behind {
            let stop = view.walk(position, behind, |offset, record, _| {
                let mut keys = Keys::default();
                derive(view.config(), offset, record, &mut keys)?;
                self.message(view, offset, record.store_timestamp, keys.0)
            })?;
            match stop {
                Stop::Reached(_) => break,
                Stop::Expired => {
                    position = view.min_offset();
                    self.expire(position)?;
                }
                Stop::Bad(bad, fault) => position = view.next_valid(bad, fault)?.unwrap_or(behind),
            }
        }
        self.expire(view.min_offset())?;
        while let Some(entry) = self.file.entry(self.number)? {
            if entry.phy_offset >= num::java_long(view.end()) && view.is_written()? {
                break;
            }
            self.wrong(entry, "no message of this file's part of the log stands there");
        }
        Ok(())
    }

    /// Entries of messages before the log's first.
    fn expire(&mut self, from: u64) -> Result<()> {
        while self.file.entry(self.number)?.is_some_and(|entry| entry.phy_offset < num::java_long(from)) {
            self.number += 1;
            self.done.expired_count += 1;
        }
        Ok(())
    }

    fn wrong(&mut self, entry: IndexEntry, detail: &str) {
        let number = self.number;
        self.number += 1;
        let place = super::place(entry.phy_offset);
        let detail = format!("entry {number} with hash {}: {detail}", entry.key_hash);
        tell(&mut self.done, self.file.file(), FindingKind::EntryWrong, place, detail);
    }

    fn message(
        &mut self,
        view: &LogView,
        offset: u64,
        store_timestamp: i64,
        mut keys: VecDeque<u32>,
    ) -> Result<()> {
        let place = num::java_long(offset);
        let header = self.file.header();
        let elsewhere = |keys: &mut VecDeque<u32>, known: &mut Vec<(i64, i32)>| {
            known.retain(|(phy_offset, hash)| {
                let at = keys.iter().position(|key| *phy_offset == place && num::bits_as_int(*key) == *hash);
                at.and_then(|at| keys.remove(at)).is_none()
            });
        };
        elsewhere(&mut keys, &mut self.carried);
        while let Some(entry) = self.file.entry(self.number)? {
            // One whose place is behind that of the entry after it must not hold up those.
            let is_ahead =
                self.file.entry(self.number + 1)?.is_some_and(|next| next.phy_offset < entry.phy_offset);
            if entry.phy_offset > place && !is_ahead {
                break;
            }
            if entry.phy_offset != place {
                self.wrong(entry, "no message stands there");
                continue;
            }
            let hash = num::int_as_bits(entry.key_hash);
            let Some(at) = keys.iter().position(|key| *key == hash) else {
                self.wrong(entry, "its message has no such key, or has it already");
                continue;
            };
            keys.remove(at);
            let expected = header.time_diff(store_timestamp);
            // The first entry's difference is to the file before it.
            if self.number > 1 && entry.time_diff != expected {
                let found = entry.time_diff;
                self.wrong(
                    entry,
                    &format!("expected {expected} seconds since the file's begin, found {found}"),
                );
                continue;
            }
            self.done.entry_count += 1;
            self.number += 1;
        }
        elsewhere(&mut keys, &mut self.extra);
        if !keys.is_empty() && view.is_dispatched(offset) && !view.is_expired(offset)? {
            let detail = format!("{} of the message's keys have no entry", keys.len());
            tell(&mut self.done, self.file.file(), FindingKind::KeyMissing, Some(offset), detail);
        }
        Ok(())
    }
}

/// The hashes of a record's keys.
#[derive(Default)]
struct Keys(VecDeque<u32>);

impl Derived for Keys {
    fn put_unit(&mut self, _: QueueRef<'_>, _: NewUnit) -> Result<()> {
        Ok(())
    }

    fn put_light_unit(&mut self, _: QueueRef<'_>, _: NewUnit) -> Result<()> {
        Ok(())
    }

    fn put_keys(&mut self, hashes: impl Iterator<Item = u32>, _: u64, _: i64) -> Result<()> {
        self.0.extend(hashes);
        Ok(())
    }
}
