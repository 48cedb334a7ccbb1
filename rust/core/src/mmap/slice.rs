//! Bytes that own what they point into.
//!
//! A slice keeps its mapping alive after its file was rolled, deleted or the store closed.

use std::ops::Deref;
use std::sync::Arc;

use super::region::Region;

/// Bytes of a store, mapped or read.
#[derive(Debug, Clone)]
pub struct Slice {
    owner: Owner,
    at: usize,
    len: usize,
}

#[derive(Debug, Clone)]
enum Owner {
    Mapped(Arc<Region>),
    Read(Arc<Vec<u8>>),
}

impl Slice {
    /// A range of a mapping; `None` where it leaves it.
    #[must_use]
    pub fn mapped(region: Arc<Region>, at: usize, len: usize) -> Option<Self> {
        region.bytes(at, len)?;
        Some(Self { owner: Owner::Mapped(region), at, len })
    }

    /// Bytes that were read.
    #[must_use]
    pub fn read(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { len: bytes.len(), owner: Owner::Read(Arc::new(bytes)), at: 0 }
    }

    /// A part of it, without a copy; `None` where it leaves it.
    #[must_use]
    pub fn sub(&self, at: usize, len: usize) -> Option<Self> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        Some(Self { owner: self.owner.clone(), at: self.at + at, len })
    }

    /// Everything of the mapping, or of what was read.
    #[must_use]
    pub fn whole(&self) -> Self {
        let len = match &self.owner {
            Owner::Mapped(region) => region.len(),
            Owner::Read(bytes) => bytes.len(),
        };
        Self { owner: self.owner.clone(), at: 0, len }
    }

    /// Where it begins in [`Slice::whole`].
    #[must_use]
    pub const fn position_in_whole(&self) -> usize {
        self.at
    }

    /// Whether both lie in one mapping, or in what one read gave.
    #[must_use]
    pub fn has_same_owner(&self, other: &Self) -> bool {
        match (&self.owner, &other.owner) {
            (Owner::Mapped(one), Owner::Mapped(other)) => Arc::ptr_eq(one, other),
            (Owner::Read(one), Owner::Read(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Has the processor fetch what stands at a place, without waiting for it.
    #[inline]
    pub fn prefetch(&self, at: usize, len: usize) {
        if let Owner::Mapped(region) = &self.owner {
            region.prefetch(self.at + at, len);
        }
    }

    /// As [`Slice::prefetch`], into the second cache: it is needed soon, and more of it than the first one holds.
    #[inline]
    pub fn prefetch_into_l2(&self, at: usize, len: usize) {
        if let Owner::Mapped(region) = &self.owner {
            region.prefetch_into_l2(self.at + at, len);
        }
    }

    /// Asks for a range to be read, without what is around it.
    pub(crate) fn will_need(&self, at: usize, len: usize) {
        if let Owner::Mapped(region) = &self.owner {
            let _best_effort = region.will_need(self.at + at, len);
        }
    }

    /// The mapping and the place in it, where it is mapped.
    #[must_use]
    pub fn region(&self) -> Option<(&Arc<Region>, usize)> {
        match &self.owner {
            Owner::Mapped(region) => Some((region, self.at)),
            Owner::Read(_) => None,
        }
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.owner {
            Owner::Mapped(region) => region.bytes(self.at, self.len),
            Owner::Read(bytes) => bytes.get(self.at..self.at + self.len),
        }
        .unwrap_or_default()
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
