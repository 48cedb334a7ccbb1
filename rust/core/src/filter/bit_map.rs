//! Bit maps of filters: which groups' filters a message passes, found once when it is dispatched and
//! kept in its unit's part of the queue's extension, so that a broker need not read messages that a
//! group does not want. Source: `CommitLogDispatcherCalcBitMap`, `BitsArray`.

use std::collections::HashMap;

use super::SqlFilter;
use crate::format::message::Record;
use crate::sync::RwLock;

/// Bytes of a map: what a broker's bloom filter takes by default.
pub const BIT_MAP_SIZE: usize = 14;

/// A message's map.
pub type FilterBitMap = [u8; BIT_MAP_SIZE];

/// A group's filter for a topic.
#[derive(Debug, Clone)]
struct GroupFilter {
    /// What passes; `None` where only a broker may know.
    filter: Option<SqlFilter>,
    /// The group's bits, numbered from each byte's lowest on.
    bit_positions: Vec<usize>,
}

impl GroupFilter {
    fn may_pass(&self, record: &Record<'_>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(record.properties))
    }
}

/// The filters that maps are made for, by topic.
#[derive(Debug, Default)]
pub struct FilterTable(RwLock<HashMap<Vec<u8>, Vec<GroupFilter>>>);

impl FilterTable {
    /// Replaces all filters: topic, bits and expression of each. They are a broker's, which passes over what follows an
    /// expression, as with `compat`; all messages pass those that cannot be compiled here, and that one may know. Gives
    /// why they cannot, of each of them.
    pub fn set(&self, filters: Vec<(String, Vec<usize>, String)>) -> Vec<String> {
        let mut table = HashMap::<Vec<u8>, Vec<GroupFilter>>::new();
        let mut refused = Vec::new();
        for (topic, bit_positions, expression) in filters {
            let compiled = SqlFilter::compile(&expression, true);
            let filter = compiled.map_err(|error| refused.push(error.to_string())).ok();
            table.entry(topic.into_bytes()).or_default().push(GroupFilter { filter, bit_positions });
        }
        *self.0.write() = table;
        refused
    }

    /// The map of a message; `None` where its topic has no filter.
    #[must_use]
    pub fn bit_map_of(&self, record: &Record<'_>) -> Option<FilterBitMap> {
        let table = self.0.read();
        let of_topic = table.get(record.topic)?;
        let mut map = FilterBitMap::default();
        for group in of_topic.iter().filter(|group| group.may_pass(record)) {
            for position in &group.bit_positions {
                if let Some(byte) = map.get_mut(position / 8) {
                    *byte |= 1 << (position % 8);
                }
            }
        }
        Some(map)
    }
}
