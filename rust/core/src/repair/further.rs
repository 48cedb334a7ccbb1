//! Further queues of messages, which only some options make.

use memchr::memmem;

use crate::commit_log::topic_queue::QueueRef;
use crate::config::StoreConfig;
use crate::consume_queue::table::QueueTable;
use crate::dispatch::multi_queues;
use crate::error::Result;
use crate::format::cq_unit::CqUnit;
use crate::format::message::Record;
use crate::format::properties::{DispatchProperties, INNER_MULTI_QUEUE_OFFSET};
use crate::log_view::LogView;
use crate::num;

/// Looks for a queue that the store has of messages that name it, and that its options do not make.
pub(super) struct Further<'a> {
    view: &'a LogView,
    /// Options that make such queues, once they are asked for.
    making: Vec<StoreConfig>,
    queues: Option<QueueTable>,
    found: Option<(String, i32)>,
}

impl<'a> Further<'a> {
    pub(super) const fn of(view: &'a LogView) -> Self {
        Self { view, making: Vec::new(), queues: None, found: None }
    }

    /// Looks at what a record names.
    pub(super) fn record(&mut self, offset: u64, record: &Record<'_>) -> Result<()> {
        let config = self.view.config();
        let makes_all = config.enable_multi_dispatch && config.enable_lmq;
        // It stands with the offsets that the message has there: of few messages, and of most stores in none.
        if makes_all
            || self.found.is_some()
            || memmem::find(record.properties, INNER_MULTI_QUEUE_OFFSET).is_none()
        {
            return Ok(());
        }
        if self.making.is_empty() {
            let with = |enable_lmq| StoreConfig { enable_lmq, ..StoreConfig::clone(config) };
            self.making = vec![with(true), with(false)];
        }
        let properties = DispatchProperties::of(record.properties);
        let mut made = match config.enable_multi_dispatch {
            true => multi_queues(config, record.queue_id, &properties),
            false => Vec::new(),
        };
        made.push((record.topic, record.queue_id, record.queue_offset));
        for making in &self.making {
            for named in multi_queues(making, record.queue_id, &properties) {
                let queues = match &mut self.queues {
                    Some(queues) => queues,
                    None => self.queues.insert(self.view.queues()?),
                };
                if !made.contains(&named) && has_unit(queues, named, offset)? {
                    let (topic, queue_id, _) = named;
                    self.found = Some((String::from_utf8_lossy(topic).into_owned(), queue_id));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn found(self) -> Option<(String, i32)> {
        self.found
    }
}

/// Whether a queue leads to a record at an offset of it: a message that was stored elsewhere before says what it had there.
fn has_unit(queues: &QueueTable, (topic, queue_id, index): (&[u8], i32, i64), offset: u64) -> Result<bool> {
    let (Some(queue), Some(index)) = (queues.get(QueueRef { topic, queue_id }), num::from_java_long(index))
    else {
        return Ok(false);
    };
    let units = queue.units(index, 1)?;
    Ok(units.first().and_then(CqUnit::place).is_some_and(|(at, _)| at == offset))
}
