//! Appending many records in one call.
//!
//! They are encoded one behind the other into memory that stays in the processor's cache, and a system call writes them to
//! the file: for whole pages that nobody has touched yet it takes a fifth of what it takes to have them made, filled with
//! zeros and mapped, and to write over them. What makes no more than a few pages goes through the mapping, as a single
//! record does, in their order. Either way it is in the page cache once it is published, where the process may be killed.

use std::sync::Arc;

use super::CommitLog;
use super::active_file::ActiveFile;
use super::append::{AppendRefusal, Appended, Appender, NewRecord, Wait};
use crate::format::message::END_FILE_MIN_BLANK_LENGTH;
use crate::num;

/// How much is written at once: a part of what a processor's own cache holds.
const RUN_SIZE: usize = 256 << 10;

/// Records that become visible together.
#[derive(Default)]
struct Run {
    /// Where the first one goes.
    begin: u64,
    /// All of them, as they will stand there.
    bytes: Vec<u8>,
    /// How many there are.
    count: usize,
    /// Of the last one.
    store_timestamp: i64,
    /// Up to where no more room has to be asked for.
    limit: u64,
    /// Whether a system call has written any of the call's.
    is_by_call: bool,
}

impl Run {
    /// Where the next one goes.
    fn end(&self) -> u64 {
        self.begin + num::offset(self.bytes.len())
    }
}

impl CommitLog {
    /// Appends a batch: all of it stands in one file, and is visible at once or not at all.
    ///
    /// # Errors
    /// An [`AppendRefusal`]; nothing was appended then.
    pub fn append_batch(
        &self,
        records: &[NewRecord<'_>],
        wait: Wait,
    ) -> Result<Vec<Appended>, AppendRefusal> {
        let size: usize = records.iter().map(|record| record.fields.record_size()).sum();
        self.with_appender(wait, |appender, now| {
            self.reserve(appender, num::offset(size), wait)?;
            let mut run = self.begin_run(appender);
            let gather = |record| self.gather(appender, &mut run, record, now, wait);
            let done = records.iter().map(gather).collect::<Result<_, _>>()?;
            self.write_run(appender, &mut run)?;
            Self::end_run(appender, run);
            Ok(done)
        })
    }

    /// Appends records one after another under one lock; a file may end between two of them. On a
    /// refusal those before it are in the log: their number is the length of what `done` holds.
    ///
    /// # Errors
    /// An [`AppendRefusal`] of the record that could not be appended.
    pub fn append_all<'r>(
        &self,
        records: impl IntoIterator<Item = NewRecord<'r>>,
        done: &mut Vec<Appended>,
        wait: Wait,
    ) -> Result<(), AppendRefusal> {
        let mut records = records.into_iter();
        self.with_appender(wait, |appender, now| {
            let mut run = self.begin_run(appender);
            let outcome = records.try_for_each(|record| {
                let size = num::offset(record.fields.record_size());
                let has_room = run.end() + size <= run.limit;
                if !has_room || run.bytes.len() >= RUN_SIZE {
                    self.write_run(appender, &mut run)?;
                }
                if !has_room {
                    self.reserve(appender, size, wait)?;
                    self.continue_run(appender, &mut run);
                }
                done.push(self.gather(appender, &mut run, &record, now, wait)?);
                Ok(())
            });
            let outcome = outcome.and(self.write_run(appender, &mut run));
            done.truncate(done.len() - run.count);
            Self::end_run(appender, run);
            outcome
        })
    }

    /// Records that go to the log's end.
    fn begin_run(&self, appender: &mut Appender) -> Run {
        let mut run = Run { bytes: std::mem::take(&mut appender.run_bytes), ..Run::default() };
        self.continue_run(appender, &mut run);
        run
    }

    /// Lets one that holds none go on at the log's end, as far as there is room.
    fn continue_run(&self, appender: &Appender, run: &mut Run) {
        let room = |active: &Arc<ActiveFile>| active.end_offset().min(active.reserved_offset());
        let limit = appender.active.as_ref().map_or(0, room);
        run.begin = self.wrote_offset();
        run.limit = limit.saturating_sub(END_FILE_MIN_BLANK_LENGTH as u64);
    }

    /// Adds a record, for which there is room.
    fn gather(
        &self,
        appender: &mut Appender,
        run: &mut Run,
        record: &NewRecord<'_>,
        now: i64,
        wait: Wait,
    ) -> Result<Appended, AppendRefusal> {
        let place = self.place(appender, record, now, run.end(), wait)?;
        record.fields.write(place, |bytes| run.bytes.extend_from_slice(bytes));
        run.count += 1;
        run.store_timestamp = place.store_timestamp;
        Ok(Appended::at(place, record))
    }

    /// Brings what was gathered into the log; where that fails it stays counted.
    fn write_run(&self, appender: &Appender, run: &mut Run) -> Result<(), AppendRefusal> {
        let Some(active) = appender.active.as_ref().filter(|_| run.count > 0) else { return Ok(()) };
        self.poison.check().map_err(AppendRefusal::Unavailable)?;
        run.is_by_call |= self.write_many(active, run.begin, &run.bytes)?;
        let end = run.end();
        self.publish_with_time(end, run.store_timestamp);
        run.begin = end;
        run.bytes.clear();
        run.count = 0;
        Ok(())
    }

    /// Writes bytes of one call where there is room for them, and gives whether a system call did. Where that fails the
    /// store takes no messages any more: some of them may stand in the file.
    pub(super) fn write_many(
        &self,
        active: &ActiveFile,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, AppendRefusal> {
        let position = self.position(offset);
        let is_by_call = bytes.len() >= self.config.by_call_size && !active.is_buffered();
        if is_by_call {
            let written = active.write_by_call(position, bytes);
            self.poison.watch("write", written).map_err(AppendRefusal::Unavailable)?;
        } else {
            active.write_in_order(position, bytes);
        }
        Ok(is_by_call)
    }

    /// Keeps the memory for the next one, unless a long record has made it large.
    fn end_run(appender: &mut Appender, mut run: Run) {
        if let Some(active) = &appender.active {
            active.set_by_call(run.is_by_call);
        }
        run.bytes.clear();
        run.bytes.shrink_to(2 * RUN_SIZE);
        appender.run_bytes = run.bytes;
    }
}
