//! The names of a store's files.
//!
//! Files of the log, of a queue and of a queue's extension are named by the offset of their first
//! byte, as twenty decimal digits. Index files are named by when they were made,
//! `yyyyMMddHHmmssSSS`. Source: `UtilAll.offset2FileName` and `timeMillisToHumanString`.

/// Digits of a name that is an offset.
pub const OFFSET_DIGITS: usize = 20;
/// Digits of a name that is a time.
pub const TIME_DIGITS: usize = 17;

/// The name of the file that begins at an offset.
#[must_use]
pub fn from_offset(offset: u64) -> String {
    format!("{offset:020}")
}

/// The offset that a name stands for, or `None` where it is no such name.
#[must_use]
pub fn to_offset(name: &str) -> Option<u64> {
    if name.len() != OFFSET_DIGITS || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    name.parse().ok().filter(|&offset: &u64| offset <= i64::MAX.cast_unsigned())
}

/// Whether a name is a time as index files have it.
#[must_use]
pub fn is_index_name(name: &str) -> bool {
    name.len() == TIME_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit())
}
