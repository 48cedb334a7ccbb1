//! All queues of a store, and what is done to all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::listing::QueueListing;
use super::tailed_files::{Changed, TailedFiles};
use super::{ConsumeQueue, NewUnit, PlaceRule, PutUnit, Rejected, RejectedUnits, UNIT, ext};
use crate::commit_log::topic_queue::{QueueKey, QueueRef};
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::format::java_string;
use crate::fs::{FileSystem, list_if_there};
use crate::interrupt;
use crate::mmap::file_queue::{FileQueue, FileQueueOptions, Listing};
use crate::mmap::map_budget::MapBudget;
use crate::mmap::mapped_file::{Access, MappedFile};
use crate::removed_queues::RemovedQueues;
use crate::side_by_side::each_of_many;
use crate::sync::{AtomicUsize, Mutex, Ordering, RwLock};

/// The prefix of light queues' topics.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Bytes in memory over all queues, above which all are written to their files.
const SPILL_BUDGET: usize = 64 << 20;
/// More files than this are brought to the disk by one sync of their file system.
const SYNC_ALL_ABOVE: usize = 256;

/// The queues of a store.
#[derive(Debug)]
pub struct QueueTable {
    config: Arc<StoreConfig>,
    fs: Arc<dyn FileSystem>,
    access: Access,
    memory_only: bool,
    file_size: u64,
    ext_file_size: u64,
    budget: Arc<MapBudget>,
    queues: RwLock<HashMap<QueueKey, Arc<ConsumeQueue>>>,
    /// Held while a new queue's folders are looked at; who only asks for a queue does not wait for it.
    making: Mutex<()>,
    /// Queues that may have something in memory.
    unspilled: Mutex<Vec<Arc<ConsumeQueue>>>,
    /// Held while those are written; whoever takes it next finds them all in the files.
    spilling: Mutex<()>,
    /// Queues that may have something in their files that is not on the disk.
    unflushed: Mutex<Vec<Arc<ConsumeQueue>>>,
    in_memory: AtomicUsize,
    lmq_count: AtomicUsize,
    is_part: bool,
    rejected: RejectedUnits,
}

/// The folder of a queue's extension, where there are such.
fn ext_folder(config: &StoreConfig, topic: &str, queue_id: i32) -> Option<PathBuf> {
    config.enable_consume_queue_ext.then(|| config.queue_ext_folder(topic, queue_id))
}

impl QueueTable {
    /// The queues of a listing.
    ///
    /// # Errors
    /// Where a queue's extension can't be listed.
    pub fn new(
        config: Arc<StoreConfig>,
        fs: Arc<dyn FileSystem>,
        access: Access,
        listing: &QueueListing,
    ) -> Result<Self> {
        let folders: Vec<_> = listing
            .queues
            .keys()
            .filter_map(|(topic, queue_id)| ext_folder(&config, topic, *queue_id))
            .collect();
        let ext_files = each_of_many(&folders, fs.is_remote(), |folder| Listing::read_derived(&*fs, folder))?;
        let table = Self {
            memory_only: access != Access::MapWrite,
            file_size: listing.file_size.unwrap_or(config.mapped_file_size_consume_queue),
            ext_file_size: ext::file_size(&ext_files.iter(), config.mapped_file_size_consume_queue_ext),
            budget: MapBudget::within_process(config.max_open_queue_files),
            config,
            fs,
            access,
            queues: RwLock::default(),
            making: Mutex::default(),
            unspilled: Mutex::default(),
            spilling: Mutex::default(),
            unflushed: Mutex::default(),
            in_memory: AtomicUsize::new(0),
            lmq_count: AtomicUsize::new(0),
            is_part: listing.is_part,
            rejected: RejectedUnits::default(),
        };
        let mut ext_files = ext_files.into_iter();
        for ((topic, queue_id), files) in &listing.queues {
            let queue = table.make(topic, *queue_id, files, ext_files.next().as_ref());
            let key = QueueKey { topic: topic.as_bytes().into(), queue_id: *queue_id };
            table.insert(key, queue);
        }
        Ok(table)
    }

    /// A queue of these files, and of those of its extension where it has one.
    fn make(
        &self,
        topic: &str,
        queue_id: i32,
        files: &Listing,
        ext_files: Option<&Listing>,
    ) -> Arc<ConsumeQueue> {
        let tailed = |folder: PathBuf, file_size, listing: &Listing| {
            let options = FileQueueOptions {
                paths: vec![folder],
                read_only_paths: Vec::new(),
                file_size,
                access: self.access,
                budget: Some(Arc::clone(&self.budget)),
            };
            TailedFiles::new(FileQueue::new(Arc::clone(&self.fs), options, listing), self.memory_only)
        };
        let folder = self.config.queue_folder(topic, queue_id);
        let units = tailed(folder, self.file_size, files);
        let ext = ext_folder(&self.config, topic, queue_id).zip(ext_files);
        let ext = ext.map(|(folder, files)| tailed(folder, self.ext_file_size, files));
        Arc::new(ConsumeQueue::new(topic, queue_id, self.config.compat, units, ext))
    }

    fn insert(&self, key: QueueKey, queue: Arc<ConsumeQueue>) {
        let is_light = queue.topic().starts_with(LMQ_PREFIX);
        if self.queues.write().insert(key, queue).is_none() && is_light {
            self.lmq_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A queue that there is.
    #[must_use]
    pub fn get(&self, queue: QueueRef<'_>) -> Option<Arc<ConsumeQueue>> {
        self.queues.read().get(&queue).cloned()
    }

    /// Whether a queue is one of them still: it may have been removed since it was asked for, and another one of its
    /// name be there.
    pub(crate) fn has(&self, queue: &Arc<ConsumeQueue>) -> bool {
        self.get(queue.name()).is_some_and(|known| Arc::ptr_eq(&known, queue))
    }

    /// The queue of a topic as a record has it: one that is no UTF-8 goes by the text that Java makes of it.
    #[must_use]
    pub fn get_decoded(&self, queue: QueueRef<'_>) -> Option<Arc<ConsumeQueue>> {
        let topic = java_string::decode(queue.topic);
        self.get(QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id })
    }

    /// Whether it has the queues of some topics alone: that another one is not in it tells nothing.
    #[must_use]
    pub const fn is_part(&self) -> bool {
        self.is_part
    }

    /// A queue, made where there was none.
    ///
    /// # Errors
    /// Where the files of its extension can't be listed.
    pub fn get_or_make(&self, queue: QueueRef<'_>) -> Result<Arc<ConsumeQueue>> {
        if let Some(found) = self.get(queue) {
            return Ok(found);
        }
        // A topic that is no UTF-8 has the folder of the text that Java makes of it.
        let topic = java_string::decode(queue.topic);
        let decoded = QueueRef { topic: topic.as_bytes(), queue_id: queue.queue_id };
        if let Some(found) = self.get(decoded) {
            return Ok(found);
        }
        let _one_at_a_time = self.making.lock();
        if let Some(found) = self.get(decoded) {
            return Ok(found);
        }
        let ext_folder = ext_folder(&self.config, &topic, queue.queue_id);
        let ext_files = ext_folder.map(|folder| Listing::read_derived(&*self.fs, &folder)).transpose()?;
        let made = self.make(&topic, queue.queue_id, &Listing::default(), ext_files.as_ref());
        made.discard_orphaned_ext()?;
        self.insert(decoded.into(), Arc::clone(&made));
        Ok(made)
    }

    /// All queues, by topic as Java orders strings, then by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        let mut all: Vec<_> = self.queues.read().values().cloned().collect();
        all.sort_by(|a, b| java_string::compare(a.topic(), b.topic()).then(a.queue_id().cmp(&b.queue_id())));
        all
    }

    /// The queues of a topic, by number.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        let mut queues: Vec<_> =
            self.queues.read().values().filter(|queue| queue.topic() == topic).cloned().collect();
        queues.sort_unstable_by_key(|queue| queue.queue_id());
        queues
    }

    /// Queues whose messages in the log are no longer theirs.
    #[must_use]
    pub fn removed(&self) -> &RemovedQueues {
        &self.config.removed_queues
    }

    /// Units and messages that do not agree, since the store was opened.
    #[must_use]
    pub const fn rejected(&self) -> &RejectedUnits {
        &self.rejected
    }

    /// How many queues there are.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.read().len()
    }

    /// How many of them are light queues.
    #[must_use]
    pub fn lmq_count(&self) -> usize {
        self.lmq_count.load(Ordering::Relaxed)
    }

    /// Bytes of a queue file.
    #[must_use]
    pub const fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Appends a unit to a queue.
    ///
    /// # Errors
    /// Where files can't take what no longer has room in memory.
    pub fn put(&self, queue: &Arc<ConsumeQueue>, new: NewUnit) -> Result<PutUnit> {
        let outcome = queue.put(new);
        self.list_put(queue, new, outcome)
    }

    /// As [`QueueTable::put`], by [`ConsumeQueue::put_light`].
    ///
    /// # Errors
    /// As for both.
    pub fn put_light(&self, queue: &Arc<ConsumeQueue>, new: NewUnit) -> Result<PutUnit> {
        let outcome = queue.put_light(new);
        self.list_put(queue, new, outcome)
    }

    fn list_put(&self, queue: &Arc<ConsumeQueue>, new: NewUnit, outcome: Result<PutUnit>) -> Result<PutUnit> {
        self.list(queue, 1)?;
        if matches!(outcome, Ok(PutUnit::OutOfPlace)) {
            self.rejected.add_out_of_place(queue, &new);
        }
        outcome
    }

    /// As [`QueueTable::put`] for several units, or several light ones: see [`ConsumeQueue::put_all`].
    ///
    /// # Errors
    /// As for both.
    pub fn put_all(
        &self,
        queue: &Arc<ConsumeQueue>,
        all: impl ExactSizeIterator<Item = NewUnit>,
        is_light: bool,
    ) -> Result<()> {
        let count = all.len();
        let outcome = queue.put_all(all, is_light, |new| self.rejected.add_out_of_place(queue, new));
        self.list(queue, count)?;
        outcome
    }

    /// Remembers that a queue may have so many units in memory, and writes all of that to the files
    /// where it has become too much.
    ///
    /// # Errors
    /// Where a file can't be made or written.
    pub fn list(&self, queue: &Arc<ConsumeQueue>, unit_count: usize) -> Result<()> {
        let size = unit_count * super::CQ_STORE_UNIT_SIZE;
        if self.memory_only {
            self.in_memory.fetch_add(size, Ordering::Relaxed);
            return Ok(());
        }
        if !queue.listed.swap(true, Ordering::AcqRel) {
            self.unspilled.lock().push(Arc::clone(queue));
        }
        if self.in_memory.fetch_add(size, Ordering::Relaxed) > SPILL_BUDGET {
            self.spill_all()?;
        }
        Ok(())
    }

    /// Writes what is in memory to the files, of all queues.
    ///
    /// # Errors
    /// Where a file can't be made or written; what could not be written stays in memory.
    pub fn spill_all(&self) -> Result<()> {
        let _one_at_a_time = self.spilling.lock();
        self.in_memory.store(0, Ordering::Relaxed);
        let queues = std::mem::take(&mut *self.unspilled.lock());
        let mut outcome = Ok(());
        for queue in &queues {
            // Cleared first: a unit that comes in meanwhile lists the queue again.
            queue.listed.store(false, Ordering::Release);
            if let Err(error) = queue.spill() {
                if !queue.listed.swap(true, Ordering::AcqRel) {
                    self.unspilled.lock().push(Arc::clone(queue));
                }
                outcome = outcome.and(Err(error));
            }
        }
        self.unflushed.lock().extend(queues);
        outcome
    }

    /// Brings what [`QueueTable::spill_all`] wrote to the disk: of queues with at least `least_pages`
    /// pages to bring, and with 0 of all. One call at a time: what another one is still bringing there
    /// is not seen.
    ///
    /// # Errors
    /// Where the disk did not take it.
    pub fn flush(&self, least_pages: u64) -> Result<()> {
        let mut queues = std::mem::take(&mut *self.unflushed.lock());
        let mut seen = HashSet::new();
        queues.retain(|queue| seen.insert(Arc::as_ptr(queue).addr()));
        let (due, later): (Vec<_>, Vec<_>) = queues.into_iter().partition(|queue| {
            let state = queue.state.lock();
            least_pages == 0 || state.units.has_unflushed_pages(least_pages)
        });
        self.unflushed.lock().extend(later);
        let outcome = self.flush_queues(&due);
        if outcome.is_err() {
            self.unflushed.lock().extend(due);
        }
        outcome
    }

    fn flush_queues(&self, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        let mut files: Vec<Arc<MappedFile>> = Vec::new();
        let mut ends = Vec::with_capacity(queues.len());
        for queue in queues {
            let state = queue.state.lock();
            let (unflushed, end) = state.units.unflushed();
            files.extend(unflushed);
            let ext_end = state.ext.as_ref().map(|ext| {
                let (unflushed, end) = ext.units.unflushed();
                files.extend(unflushed);
                end
            });
            ends.push((end, ext_end));
        }
        self.sync_files(&files)?;
        for (queue, (end, ext_end)) in queues.iter().zip(ends) {
            let mut state = queue.state.lock();
            state.units.set_flushed(end);
            if let (Some(ext), Some(end)) = (&mut state.ext, ext_end) {
                ext.units.set_flushed(end);
            }
        }
        Ok(())
    }

    /// Removes what stands behind the ends of all queues: files from the disk too, units once [`QueueTable::end_trim`]
    /// is called. With many queues each is one sync of their file system.
    ///
    /// # Errors
    /// Where a file can't be written, removed or synced.
    pub fn trim(&self) -> Result<()> {
        let mut changed = Changed::default();
        self.all().iter().try_for_each(|queue| {
            interrupt::check()?;
            queue.trim(&mut changed)
        })?;
        self.sync_changed(changed)
    }

    /// Takes back a queue's units of records at or behind an offset of the log, while nothing is put or flushed.
    ///
    /// # Errors
    /// Where a file can't be read, written or removed.
    pub(crate) fn take_back(&self, queue: &ConsumeQueue, from: u64) -> Result<()> {
        let _not_while_it_is_written = self.spilling.lock();
        if !self.memory_only {
            queue.spill()?;
        }
        let is_of_it =
            |told: &Rejected| (told.topic.as_str(), told.queue_id) == (queue.topic(), queue.queue_id());
        self.rejected.forget_from(from, is_of_it);
        if !queue.cut_behind(from)? || self.memory_only {
            return Ok(());
        }
        let mut changed = Changed::default();
        queue.trim(&mut changed)?;
        queue.end_trim(&mut changed)?;
        self.sync_changed(changed)
    }

    /// Removes the files that [`QueueTable::trim`] kept to be written again, where nothing was dispatched to them,
    /// and brings that to the disk, and the zeros that nothing was written over.
    ///
    /// # Errors
    /// Where a file can't be removed, or something not be synced.
    pub fn end_trim(&self) -> Result<()> {
        let mut changed = Changed::default();
        self.all().iter().try_for_each(|queue| queue.end_trim(&mut changed))?;
        self.sync_changed(changed)
    }

    fn sync_changed(&self, changed: Changed) -> Result<()> {
        let Changed { files, mut folders } = changed;
        if files.len() + folders.len() > SYNC_ALL_ABOVE {
            return self.sync_all();
        }
        files.iter().try_for_each(MappedFile::sync)?;
        folders.sort_unstable();
        folders.dedup();
        folders.iter().try_for_each(|folder| match self.fs.metadata(folder) {
            Ok(None) => Ok(()),
            _ => self.fs.sync_dir(folder).map_err(Error::io("sync the folder", folder)),
        })
    }

    fn sync_all(&self) -> Result<()> {
        // The folders may lie on disks of their own.
        let folders = [
            self.config.store_path_root_dir.clone(),
            self.config.store_path_consume_queue(),
            self.config.store_path_consume_queue_ext(),
        ];
        let mut synced = Vec::new();
        for folder in &folders {
            let found = self.fs.metadata(folder).map_err(Error::io("look at", folder))?;
            let Some((disk, _)) =
                found.map(|found| found.identity).filter(|(disk, _)| !synced.contains(disk))
            else {
                continue;
            };
            self.fs.sync_all(folder).map_err(Error::io("sync the file system of", folder))?;
            synced.push(disk);
        }
        Ok(())
    }

    fn sync_files(&self, files: &[Arc<MappedFile>]) -> Result<()> {
        if files.len() > SYNC_ALL_ABOVE {
            return self.sync_all();
        }
        let mut folders: Vec<&Path> = Vec::new();
        for file in files {
            file.sync()?;
            // With the store's folder: the queue's folder, its topic's and the one of all may be new.
            folders.extend(file.path().ancestors().skip(1).take(4));
        }
        folders.sort_unstable();
        folders.dedup();
        folders
            .iter()
            .try_for_each(|folder| self.fs.sync_dir(folder).map_err(Error::io("sync the folder", *folder)))
    }

    /// In a store that is only read: lets go of units in memory that the files hold by now, where
    /// they have become many.
    ///
    /// # Errors
    /// Where a folder or a file can't be read.
    pub fn adopt_files(&self) -> Result<()> {
        if self.in_memory.load(Ordering::Relaxed) < self.config.adopt_above {
            return Ok(());
        }
        self.in_memory.store(0, Ordering::Relaxed);
        self.all().iter().try_for_each(|queue| queue.adopt_files(&*self.fs))
    }

    /// Takes a queue out of the table, where it is in it; its files stay.
    pub(crate) fn leave_out(&self, queue: &Arc<ConsumeQueue>) {
        let mut queues = self.queues.write();
        // Another one may have its name by now.
        if queues.get(&queue.name()).is_some_and(|known| Arc::ptr_eq(known, queue)) {
            queues.remove(&queue.name());
            if queue.topic().starts_with(LMQ_PREFIX) {
                self.lmq_count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes a queue out of the store and removes its files.
    ///
    /// # Errors
    /// Where a file can't be removed.
    pub fn destroy(&self, queue: &Arc<ConsumeQueue>) -> Result<()> {
        self.leave_out(queue);
        let _not_while_it_is_written = self.spilling.lock();
        self.unspilled.lock().retain(|listed| !Arc::ptr_eq(listed, queue));
        self.unflushed.lock().retain(|listed| !Arc::ptr_eq(listed, queue));
        queue.destroy()?;
        if !self.memory_only {
            self.remove_folders(queue)?;
        }
        Ok(())
    }

    fn remove_folders(&self, queue: &ConsumeQueue) -> Result<()> {
        for root in [self.config.store_path_consume_queue(), self.config.store_path_consume_queue_ext()] {
            let topic = root.join(queue.topic());
            self.remove_if_empty(&topic.join(queue.queue_id().to_string()))?;
            self.remove_if_empty(&topic)?;
        }
        Ok(())
    }

    /// Removes folders of topics without queues: each is made before its first message is dispatched.
    ///
    /// # Errors
    /// Where one can't be listed or removed.
    pub fn remove_empty_topics(&self) -> Result<()> {
        let root = self.config.store_path_consume_queue();
        let topics = list_if_there(&*self.fs, &root)?.unwrap_or_default();
        topics
            .iter()
            .filter(|entry| entry.is_dir)
            .try_for_each(|topic| self.remove_if_empty(&root.join(&topic.name)))
    }

    fn remove_if_empty(&self, folder: &Path) -> Result<()> {
        if list_if_there(&*self.fs, folder)?.is_some_and(|entries| entries.is_empty()) {
            self.fs.remove_dir(folder).map_err(Error::io("remove the folder", folder))?;
        }
        Ok(())
    }

    /// Closes the files of all queues until they are used again.
    pub(crate) fn close_files(&self) {
        let queues: Vec<_> = self.queues.read().values().cloned().collect();
        queues.iter().for_each(|queue| queue.close_files());
    }

    /// Files of queues that are open.
    #[must_use]
    pub fn open_file_count(&self) -> usize {
        self.budget.open_count()
    }

    /// Where their units go.
    pub(crate) fn place_rule(&self) -> PlaceRule {
        PlaceRule { units_in_file: self.units_in_file(), compat: self.config.compat }
    }

    /// Units of a queue file.
    #[must_use]
    pub const fn units_in_file(&self) -> u64 {
        self.file_size / UNIT
    }
}
