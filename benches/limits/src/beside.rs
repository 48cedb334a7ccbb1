//! What goes on beside a writer at the least: pages are made ready, written to the disk, and the records of the log become
//! units of queues and entries of an index.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, slice};

use memmap2::{Advice, MmapMut, MmapRaw};
use mqstore_core::format::cq_unit::CqUnit;
use mqstore_core::format::index::{IndexEntry, IndexShape, TopicHash};
use mqstore_core::format::java_string::hash_code;
use mqstore_core::format::message::{self, Check, Decoded, Record};
use mqstore_core::format::properties::DispatchProperties;
use mqstore_core::num;

/// How far ahead of the writer pages are ready, and how much is made ready or written to the disk at a time.
const AHEAD: usize = 64 << 20;
const STEP: usize = 8 << 20;
/// For how long a thread waits that has nothing to do.
const PAUSE: Duration = Duration::from_millis(1);
/// How much of a queue is gathered before it is written to its file.
const UNITS_SIZE: usize = 64 << 10;
const QUEUE_COUNT: usize = 8;
/// As 4.9.3 has it.
const SHAPE: IndexShape = IndexShape { hash_slot_num: 5_000_000, index_num: 20_000_000 };

/// The threads.
pub struct Beside {
    progress: Arc<Progress>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct Progress {
    /// Up to here there are records.
    wrote: AtomicUsize,
    is_over: AtomicBool,
}

impl Progress {
    /// Where the records end by now, and whether that is all of them.
    fn now(&self) -> (usize, bool) {
        let is_over = self.is_over.load(Ordering::Acquire);
        (self.wrote.load(Ordering::Acquire), is_over)
    }
}

impl Beside {
    pub fn begin(map: &Arc<MmapRaw>, folder: &Path) -> io::Result<Self> {
        let progress = Arc::<Progress>::default();
        let mut targets = Targets::make(folder)?;
        let [of_pages, of_disk, of_records] = std::array::from_fn(|_| Arc::clone(&progress));
        let [pages, disk, records] = std::array::from_fn(|_| Arc::clone(map));
        let make_ready = move |at, len| pages.advise_range(Advice::PopulateWrite, at, len);
        let write_to_disk = move |at, len| disk.flush_range(at, len);
        let size = map.len();
        let threads = vec![
            thread::spawn(move || in_steps(size, &of_pages, AHEAD, make_ready)),
            thread::spawn(move || in_steps(size, &of_disk, 0, write_to_disk)),
            thread::spawn(move || targets.dispatch(&records, &of_records)),
        ];
        Ok(Self { progress, threads })
    }

    /// Says how far the records go.
    pub fn wrote(&self, to: usize) {
        self.progress.wrote.store(to, Ordering::Release);
    }

    pub fn finish(self) -> io::Result<()> {
        self.progress.is_over.store(true, Ordering::Release);
        let failed = || io::Error::other("a thread beside the writer failed");
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| failed())?)
    }
}

/// Does something for each step of a log of this size, some way ahead of the writer or behind it.
fn in_steps(
    size: usize,
    progress: &Progress,
    ahead: usize,
    each: impl Fn(usize, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut done = 0;
    loop {
        let (wrote, is_over) = progress.now();
        if is_over {
            return Ok(());
        }
        let step = STEP.min(size - done);
        if step > 0 && done + step <= wrote + ahead {
            each(done, step)?;
            done += step;
        } else {
            thread::sleep(PAUSE);
        }
    }
}

/// Puts units and entries of all records of a log into new files of a folder.
pub fn dispatch_all(log: &[u8], folder: &Path) -> io::Result<()> {
    let mut targets = Targets::make(folder)?;
    targets.put_all(log, 0)?;
    targets.end()
}

/// Queues and an index.
struct Targets {
    queues: Vec<(File, Vec<u8>)>,
    index: MmapMut,
    entry_count: u32,
}

impl Targets {
    fn make(folder: &Path) -> io::Result<Self> {
        let make =
            |name: &str| File::options().read(true).write(true).create_new(true).open(folder.join(name));
        let queues = (0..QUEUE_COUNT).map(|number| Ok((make(&number.to_string())?, Vec::new())));
        let file = make("index")?;
        file.set_len(num::offset(SHAPE.file_size()))?;
        // SAFETY: the file is new, and in a folder of this bench's own.
        let index = unsafe { MmapMut::map_mut(&file) }?;
        Ok(Self { queues: queues.collect::<io::Result<_>>()?, index, entry_count: 0 })
    }

    fn dispatch(&mut self, map: &MmapRaw, progress: &Progress) -> io::Result<()> {
        let mut at = 0;
        loop {
            let (wrote, is_over) = progress.now();
            // SAFETY: what is before the writer's position is not written to any more.
            let log = unsafe { slice::from_raw_parts(map.as_ptr(), wrote) };
            at = self.put_all(log, at)?;
            if is_over {
                return self.end();
            }
            thread::sleep(PAUSE);
        }
    }

    /// Puts what the records from a place on give; gives where they end.
    fn put_all(&mut self, log: &[u8], from: usize) -> io::Result<usize> {
        let mut at = from;
        while let Some(Ok(Decoded::Message(record))) =
            log.get(at..).filter(|rest| !rest.is_empty()).map(|rest| message::decode(rest, Check::Structure))
        {
            self.put(num::offset(at), &record)?;
            at += record.total_size as usize;
        }
        Ok(at)
    }

    fn end(&mut self) -> io::Result<()> {
        self.queues.iter_mut().try_for_each(|(file, units)| file.write_all(units))
    }

    fn put(&mut self, offset: u64, record: &Record<'_>) -> io::Result<()> {
        let properties = DispatchProperties::of(record.properties);
        let unit = CqUnit {
            physical_offset: num::java_long(offset),
            size: num::java_int(record.total_size as usize),
            tags_code: properties.tags.map_or(0, |tags| i64::from(hash_code(tags))),
        };
        if let Some((file, units)) = self.queues.get_mut(usize::try_from(record.queue_id).unwrap_or_default())
        {
            units.extend_from_slice(&unit.to_bytes());
            if units.len() >= UNITS_SIZE {
                file.write_all(units)?;
                units.clear();
            }
        }
        let topic = TopicHash::of(record.topic);
        for key in properties.index_keys() {
            self.put_key(topic.key(key), offset);
        }
        Ok(())
    }

    fn put_key(&mut self, key_hash: u32, offset: u64) {
        self.entry_count += 1;
        let slot_at = SHAPE.slot_at(SHAPE.slot_of(key_hash));
        let number = self.entry_count.to_be_bytes();
        let Some(slot) = self.index.get_mut(slot_at..slot_at + number.len()) else { return };
        let before = slot.first_chunk().map_or(0, |slot| u32::from_be_bytes(*slot));
        slot.copy_from_slice(&number);
        let entry = IndexEntry {
            key_hash: num::bits_as_int(key_hash),
            phy_offset: num::java_long(offset),
            time_diff: 0,
            prev_index: num::bits_as_int(before),
        };
        let (at, bytes) = (SHAPE.entry_at(self.entry_count), entry.to_bytes());
        if let Some(place) = self.index.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
    }
}
