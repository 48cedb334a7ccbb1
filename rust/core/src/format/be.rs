//! Big-endian fields: everything in a RocketMQ store is written by a Java `ByteBuffer`.

/// Reads fields one after another from untrusted bytes; every read is checked.
#[derive(Debug, Clone)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `N` bytes, or `None` where fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next `len` bytes, or `None` where fewer are left.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    /// Java's `getInt`.
    #[inline]
    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// Java's `getLong`.
    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Java's `getShort`.
    #[inline]
    pub fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
}

/// Java's `getShort(at)`, or `None` past the end.
#[inline]
#[must_use]
pub fn i16_at(bytes: &[u8], at: usize) -> Option<i16> {
    FieldReader::new(bytes.get(at..)?).i16()
}

/// Java's `getInt(at)`, or `None` past the end.
#[inline]
#[must_use]
pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    FieldReader::new(bytes.get(at..)?).i32()
}

/// Java's `getLong(at)`, or `None` past the end.
#[inline]
#[must_use]
pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    FieldReader::new(bytes.get(at..)?).i64()
}

/// A fixed-size buffer that is filled field by field; its size is a format's, so it cannot overflow
/// unless the format's own table is wrong, which its tests would show as a truncated record.
#[derive(Debug, Clone)]
pub struct FieldWriter<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for FieldWriter<N> {
    fn default() -> Self {
        Self { bytes: [0; N], len: 0 }
    }
}

impl<const N: usize> FieldWriter<N> {
    /// Appends bytes as they are.
    #[inline]
    pub fn bytes(&mut self, field: &[u8]) {
        let end = self.len + field.len();
        if let Some(slot) = self.bytes.get_mut(self.len..end) {
            slot.copy_from_slice(field);
        }
        self.len = end;
    }

    /// Java's `putInt`.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Java's `putLong`.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    /// What has been written so far.
    #[inline]
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}
