//! Looking up messages by a key and a range of times.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashSet;

use super::file::IndexFile;
use super::{IndexService, Pace, Reading};
use crate::error::Result;
use crate::format::index::{IndexEntry, IndexHeader, TopicHash, key_hash};
use crate::{interrupt, num};

/// Up to so many offsets are looked through one by one.
const FEW_OFFSETS: usize = 16;
/// A look-up may be broken off after each so many entries.
const ENTRIES_BETWEEN_CHECKS: u32 = 1024;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct KeyQuery<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// One of the message's keys, or its unique key.
    pub key: &'a [u8],
    /// Most messages; the newest ones are given.
    pub max_num: usize,
    /// Earliest store time, in milliseconds.
    pub begin: i64,
    /// Latest store time.
    pub end: i64,
}

/// What a look-up found. Source: `QueryOffsetResult`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryOffsetResult {
    /// Physical offsets, newest first.
    pub phy_offsets: Vec<u64>,
    /// Store time of the last message in the index.
    pub index_last_update_timestamp: i64,
    /// Where that message stands.
    pub index_last_update_phyoffset: i64,
}

/// Finds the messages of keys of one topic, in the index files as they were when it was made.
#[derive(Debug)]
pub struct KeyFinder<'a> {
    files: Arc<Vec<Arc<IndexFile>>>,
    topic: TopicHash,
    pace: &'a Pace,
}

impl<'a> KeyFinder<'a> {
    /// A finder of keys of a topic.
    #[must_use]
    pub fn new(index: &'a IndexService, topic: &[u8]) -> Self {
        Self { files: index.files(), topic: TopicHash::of(topic), pace: &index.pace }
    }

    /// Whether what is about to be read is to be asked for first; who looks up tells how long that took.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// When a call begins that is to tell how long its look-ups took.
    #[must_use]
    pub fn begin(&self) -> Option<Instant> {
        self.pace.begin()
    }

    /// So many look-ups have been done since a time.
    pub fn took(&self, since: Instant, count: usize) {
        self.pace.took(since, count, self.files.len());
    }

    /// What stands for a key in the index.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u32 {
        self.topic.key(key)
    }

    /// The newest file, which stays open for many look-ups: to open it for each costs more than what is looked up there, where
    /// threads do so side by side.
    ///
    /// # Errors
    /// Where it can't be opened.
    pub fn newest(&self) -> Result<Option<Reading<'_>>> {
        self.files.last().map_or(Ok(None), |last| last.read())
    }

    /// Adds the offsets of messages with a key, whose hash is given too, and what `take` makes of each,
    /// newest first. Index entries are only hints, 32 bits of a hash and a time in whole seconds: `take`
    /// gives `None` for a message that has another key or time.
    ///
    /// # Errors
    /// Where a file can't be read, or `take` fails to read a message.
    pub fn find<T>(
        &self,
        newest: Option<&Reading<'_>>,
        query: &KeyQuery<'_>,
        hash: u32,
        found: &mut Vec<(u64, T)>,
        mut take: impl FnMut(u64) -> Result<Option<T>>,
    ) -> Result<()> {
        let is_slow = self.is_slow();
        let (mut known, mut pauses) = (KnownOffsets::default(), Pauses::default());
        for file in self.files.iter().rev() {
            let opened;
            let read = match newest.filter(|newest| std::ptr::eq(newest.file(), &**file)) {
                Some(newest) => newest,
                None => match file.read()? {
                    Some(read) => {
                        opened = read;
                        &opened
                    }
                    // It was removed since it was looked up.
                    None => continue,
                },
            };
            let mut chain = Chain::of(read, hash, is_slow)?;
            while let Some((number, entry)) = chain.next()? {
                pauses.check()?;
                if found.len() >= query.max_num {
                    return Ok(());
                }
                if num::int_as_bits(entry.key_hash) != hash {
                    continue;
                }
                let Some(offset) = num::from_java_long(entry.phy_offset) else { continue };
                // The first entry of a file counts its seconds from the end of the file before, which
                // no header keeps: see `putKey`.
                let says_its_time = number > 1;
                chain.prefetch();
                // A message stands more than once where it has a key twice, or was indexed twice.
                if (!says_its_time || may_match_time(read, entry.time_diff, query))
                    && !known.contains(found, offset)
                    && let Some(taken) = take(offset)?
                {
                    found.push((offset, taken));
                }
            }
        }
        Ok(())
    }

    /// Has the processor fetch what looking up some keys begins with, slots first and then the entries
    /// that they lead to: beside each other, where each key would otherwise wait for its own memory.
    /// Gives where the messages of the newest entries stand.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn prefetch(&self, newest: Option<&Reading<'_>>, hashes: &[u32]) -> Result<Vec<u64>> {
        let Some(file) = newest else { return Ok(Vec::new()) };
        let shape = file.file().shape();
        let slots = hashes.iter().map(|&hash| shape.slot_of(hash));
        let is_slow = self.is_slow();
        if is_slow {
            slots.clone().for_each(|slot| file.will_need_slot(slot));
        }
        slots.clone().for_each(|slot| file.prefetch_slot(slot));
        let newest = slots.map(|slot| file.slot(slot)).collect::<Result<Vec<u32>>>()?;
        if is_slow {
            newest.iter().for_each(|&number| file.will_need_entry(number));
        }
        newest.iter().for_each(|&number| file.prefetch_entry(number));
        let mut places = Vec::with_capacity(newest.len());
        for number in newest {
            places.extend(file.entry(number)?.and_then(|entry| num::from_java_long(entry.phy_offset)));
        }
        Ok(places)
    }
}

impl IndexService {
    /// As [`KeyFinder::find`], of one key.
    ///
    /// # Errors
    /// As there.
    pub fn query<T>(
        &self,
        query: &KeyQuery<'_>,
        take: impl FnMut(u64) -> Result<Option<T>>,
    ) -> Result<Vec<(u64, T)>> {
        let finder = KeyFinder::new(self, query.topic);
        let begin = finder.begin();
        let mut found = Vec::new();
        finder.find(None, query, finder.hash(query.key), &mut found, take)?;
        if let Some(begin) = begin {
            finder.took(begin, 1);
        }
        Ok(found)
    }

    /// 4.9.3's answer: what matches the hash, in whole seconds. Source: `queryOffset` and
    /// `selectPhyOffset`.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn query_offset_compat(
        &self,
        query: &KeyQuery<'_>,
        max_msgs_num_batch: usize,
    ) -> Result<QueryOffsetResult> {
        let max_num = query.max_num.min(max_msgs_num_batch);
        let files = self.files();
        let mut pauses = Pauses::default();
        let mut result = QueryOffsetResult::default();
        if let Some(last) = files.last() {
            let header = last.header();
            result.index_last_update_timestamp = header.end_timestamp;
            result.index_last_update_phyoffset = header.end_phy_offset;
        }
        for file in files.iter().rev() {
            let header = file.header();
            if is_time_matched(&header, query) {
                select_phy_offset(file, query, max_num, &mut result.phy_offsets, &mut pauses)?;
            }
            if header.begin_timestamp < query.begin || result.phy_offsets.len() >= max_num {
                break;
            }
        }
        Ok(result)
    }
}

/// Whether an entry's message can have been stored in the range. An entry holds whole seconds since
/// the file's begin; one that lies before the begin holds 0, and one too far behind the largest
/// number, so that both say little.
fn may_match_time(file: &Reading<'_>, time_diff: i32, query: &KeyQuery<'_>) -> bool {
    if time_diff <= 0 || time_diff == i32::MAX {
        return true;
    }
    let from = file.header().begin_timestamp.saturating_add(i64::from(time_diff) * 1000);
    from <= query.end && from.saturating_add(999) >= query.begin
}

/// Source: `IndexFile.isTimeMatched`.
fn is_time_matched(header: &IndexHeader, query: &KeyQuery<'_>) -> bool {
    let (first, last) = (header.begin_timestamp, header.end_timestamp);
    (query.begin < first && query.end > last)
        || (first..=last).contains(&query.begin)
        || (first..=last).contains(&query.end)
}

fn select_phy_offset(
    file: &IndexFile,
    query: &KeyQuery<'_>,
    max_num: usize,
    found: &mut Vec<u64>,
    pauses: &mut Pauses,
) -> Result<()> {
    let hash = key_hash(query.topic, query.key);
    let header = file.header();
    if header.index_count <= 1 {
        return Ok(());
    }
    let Some(read) = file.read()? else { return Ok(()) };
    let mut chain = Chain::of(&read, hash, false)?;
    while found.len() < max_num
        && let Some((_, entry)) = chain.next()?.filter(|(_, entry)| entry.time_diff >= 0)
    {
        pauses.check()?;
        let time = header.begin_timestamp.saturating_add(i64::from(entry.time_diff) * 1000);
        if num::int_as_bits(entry.key_hash) == hash && time >= query.begin && time <= query.end {
            found.extend(num::from_java_long(entry.phy_offset));
        }
        if time < query.begin {
            break;
        }
    }
    Ok(())
}

/// The offsets that a look-up has found, to be asked for one of them: many messages may share a key.
#[derive(Default)]
struct KnownOffsets(HashSet<u64>);

impl KnownOffsets {
    /// Whether an offset was found. What was found since the last question is taken over first.
    fn contains<T>(&mut self, found: &[(u64, T)], offset: u64) -> bool {
        if found.len() <= FEW_OFFSETS {
            return found.iter().any(|(known, _)| *known == offset);
        }
        // Each was found once, so that their number says which are taken over.
        let new = found.get(self.0.len()..).unwrap_or_default();
        self.0.extend(new.iter().map(|(known, _)| *known));
        self.0.contains(&offset)
    }
}

/// Where a look-up that goes through many entries may be broken off.
#[derive(Default)]
struct Pauses {
    entry_count: u32,
}

impl Pauses {
    fn check(&mut self) -> Result<()> {
        self.entry_count += 1;
        if self.entry_count < ENTRIES_BETWEEN_CHECKS {
            return Ok(());
        }
        self.entry_count = 0;
        interrupt::check()
    }
}

/// The entries of a slot, newest first. A damaged chain ends where it does not lead to an older one.
struct Chain<'a> {
    file: &'a Reading<'a>,
    next: u32,
    /// Whether what is read is asked for first.
    is_slow: bool,
}

impl<'a> Chain<'a> {
    fn of(file: &'a Reading<'a>, key_hash: u32, is_slow: bool) -> Result<Self> {
        let slot = file.file().shape().slot_of(key_hash);
        if is_slow {
            file.will_need_slot(slot);
        }
        let next = file.slot(slot)?;
        Ok(Self { file, next, is_slow })
    }

    /// Has the processor fetch the next entry while the message of this one is looked at.
    fn prefetch(&self) {
        if self.next > 0 {
            self.file.prefetch_entry(self.next);
        }
    }

    /// An entry and its number.
    fn next(&mut self) -> Result<Option<(u32, IndexEntry)>> {
        let number = self.next;
        if self.is_slow && number > 0 {
            self.file.will_need_entry(number);
        }
        let Some(entry) = self.file.entry(number)? else { return Ok(None) };
        let previous = num::from_java_int(entry.prev_index).unwrap_or(0);
        self.next = if previous < number { previous } else { 0 };
        Ok(Some((number, entry)))
    }
}
