//! The messages of a read, as places in the mappings that they lie in.

use std::ops::Range;

use crate::commit_log::read::prefetch_whole;
use crate::mmap::slice::Slice;
use crate::num;

/// So many mappings are looked at for the one of a message.
const RECENT_WINDOWS: usize = 8;

/// Messages that were read, in order. Those next to each other that lie in one mapping share one
/// reference to it, so that a message more costs no count of references.
#[derive(Debug, Default)]
pub struct GotMessages {
    windows: Vec<Slice>,
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    window: usize,
    at: usize,
    len: usize,
    queue_offset: u64,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct GotMessage<'a> {
    window: &'a Slice,
    place: Place,
}

impl<'a> GotMessage<'a> {
    /// Its record's bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.window.get(self.place.at..self.place.at + self.place.len).unwrap_or_default()
    }

    /// Its record, which keeps its mapping alive.
    #[must_use]
    pub fn record(&self) -> Option<Slice> {
        self.window.sub(self.place.at, self.place.len)
    }

    /// Its unit's index in the queue.
    #[must_use]
    pub const fn queue_offset(&self) -> u64 {
        self.place.queue_offset
    }

    /// What its record lies in, and where.
    #[must_use]
    pub const fn window(&self) -> (&'a Slice, usize) {
        (self.window, self.place.at)
    }
}

impl GotMessages {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of their records.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size_of(0..self.len())
    }

    /// Bytes of the records of some of them.
    #[must_use]
    pub fn size_of(&self, places: Range<usize>) -> u64 {
        self.places.get(places).unwrap_or_default().iter().map(|place| num::offset(place.len)).sum()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<GotMessage<'_>> {
        let place = *self.places.get(at)?;
        Some(GotMessage { window: self.windows.get(place.window)?, place })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = GotMessage<'_>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Has the processor fetch some of them, of which every byte is read.
    pub fn prefetch(&self, some: Range<usize>) {
        for place in self.places.get(some).unwrap_or_default() {
            let Some(window) = self.windows.get(place.window) else { continue };
            prefetch_whole(window, place.at, place.len);
        }
    }

    /// Makes room for so many more.
    pub fn reserve(&mut self, count: usize) {
        self.places.reserve_exact(count);
    }

    /// Adds the message whose record begins at `at` of a window.
    pub fn push(&mut self, window: &Slice, at: usize, len: usize, queue_offset: u64) {
        let at = window.position_in_whole() + at;
        let is_its = |known: &Slice| known.has_same_owner(window);
        let window_at = match self.windows.len().checked_sub(1) {
            Some(last) if self.windows.last().is_some_and(is_its) => last,
            _ => self.window_at(window),
        };
        self.places.push(Place { window: window_at, at, len, queue_offset });
    }

    /// Where the mapping of a window is among those that there are, or comes to be.
    fn window_at(&mut self, window: &Slice) -> usize {
        let recent = self.windows.len().saturating_sub(RECENT_WINDOWS);
        let known = self.windows.get(recent..).unwrap_or_default();
        if let Some(at) = known.iter().rposition(|known| known.has_same_owner(window)) {
            return recent + at;
        }
        self.windows.push(window.whole());
        self.windows.len() - 1
    }
}
