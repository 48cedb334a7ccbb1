//! Looking up the messages of many keys in one call.
//!
//! A key's slot, its entry and its message each lie in a page of their own that no cache holds. Those of some
//! keys are asked for beside each other, and where there are many keys, several cores look up some each.

use super::Store;
use crate::commit_log::read::RecordReader;
use crate::error::Result;
use crate::index::{KeyFinder, KeyQuery};
use crate::mmap::slice::Slice;
use crate::side_by_side::{available_threads, side_by_side};
use crate::store::GotMessages;

/// Keys whose index entries and messages are fetched beside each other.
const KEYS_AT_ONCE: usize = 64;
/// Keys that one thread looks up before it takes the next ones.
const KEYS_OF_A_JOB: usize = 1024;

/// The messages of each of many keys.
#[derive(Debug, Default)]
pub struct FoundByKey {
    /// Of [`KEYS_OF_A_JOB`] keys each, the last aside.
    parts: Vec<Part>,
    key_count: usize,
}

#[derive(Debug, Default)]
struct Part {
    messages: GotMessages,
    /// Behind the last message of each key.
    ends: Vec<usize>,
}

impl Part {
    fn end_key(&mut self) {
        self.ends.push(self.messages.len());
    }
}

impl FoundByKey {
    /// How many keys were looked up.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.key_count
    }

    /// Whether no key was looked up.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.key_count == 0
    }

    /// The records of a key, by its number, oldest first; `None` behind the last key.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Vec<Slice>> {
        let part = self.parts.get(at / KEYS_OF_A_JOB)?;
        let at = at % KEYS_OF_A_JOB;
        let begin = at.checked_sub(1).map_or(Some(0), |before| part.ends.get(before).copied())?;
        let end = *part.ends.get(at)?;
        (begin..end).map(|message| part.messages.get(message)?.record()).collect()
    }
}

impl Store {
    /// The messages of each of many keys, as [`Store::query_message`] gives them; of the queries the
    /// topic, the number and the times are one.
    ///
    /// # Errors
    /// As there.
    pub fn query_messages(
        &self,
        query: &KeyQuery<'_>,
        keys: &[impl AsRef<str> + Sync],
    ) -> Result<FoundByKey> {
        self.while_open(|| self.find_by_keys(query, keys))
    }

    fn find_by_keys(&self, query: &KeyQuery<'_>, keys: &[impl AsRef<str> + Sync]) -> Result<FoundByKey> {
        self.catch_up()?;
        let finder = self.index.as_ref().map(|index| KeyFinder::new(index, query.topic));
        // Where files are read by way of Python, one after the other is as fast.
        let max_threads = if self.log.files().is_mapped() { available_threads() } else { 1 };
        let jobs = keys.chunks(KEYS_OF_A_JOB).collect();
        let parts = side_by_side(jobs, max_threads, |keys| self.query_part(finder.as_ref(), query, keys));
        Ok(FoundByKey { parts: parts.into_iter().collect::<Result<_>>()?, key_count: keys.len() })
    }

    fn query_part(
        &self,
        finder: Option<&KeyFinder<'_>>,
        query: &KeyQuery<'_>,
        keys: &[impl AsRef<str>],
    ) -> Result<Part> {
        let mut part = Part::default();
        let Some(finder) = finder else {
            keys.iter().for_each(|_| part.end_key());
            return Ok(part);
        };
        part.messages.reserve(keys.len());
        part.ends.reserve_exact(keys.len());
        let mut records = self.log.records();
        let newest = finder.newest()?;
        let mut found = Vec::new();
        for some in keys.chunks(KEYS_AT_ONCE) {
            let hashes: Vec<u32> = some.iter().map(|key| finder.hash(key.as_ref().as_bytes())).collect();
            let begin = finder.begin();
            records.set_slow(finder.is_slow());
            records.prefetch_records(&finder.prefetch(newest.as_ref(), &hashes)?)?;
            for (key, hash) in some.iter().zip(hashes) {
                let query = KeyQuery { key: key.as_ref().as_bytes(), ..*query };
                if self.config.compat {
                    let messages = self.query_message_compat(&query)?;
                    messages.iter().for_each(|record| part.messages.push(record, 0, record.len(), 0));
                } else {
                    finder.find(newest.as_ref(), &query, hash, &mut found, |offset| {
                        self.record_with_key(&mut records, offset, &query)
                    })?;
                    take_found(&mut found, &mut records, &mut part.messages)?;
                }
                part.end_key();
            }
            if let Some(begin) = begin {
                finder.took(begin, some.len());
            }
        }
        Ok(part)
    }
}

/// Moves what was found, as offset and size, to the messages, oldest first.
fn take_found(
    found: &mut Vec<(u64, u32)>,
    records: &mut RecordReader<'_>,
    messages: &mut GotMessages,
) -> Result<()> {
    found.sort_unstable_by_key(|(offset, _)| *offset);
    for (offset, size) in found.drain(..) {
        if let Some((window, at)) = records.find(offset, size)? {
            messages.push(window, at, size as usize, 0);
        }
    }
    Ok(())
}
