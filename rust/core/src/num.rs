//! Integer conversions that cannot lose anything on the platforms the engine builds for.
//!
//! Casts with `as` are denied by lint, because a length read from disk must never be cut silently.
//! Where a conversion is lossless by construction it goes through one of these functions, so that
//! every cast left in the code has been looked at.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("mqstore maps files of 1 GiB by the hundred: it needs a 64-bit platform");

/// An offset or length as an index. Lossless, since only 64-bit platforms are built for.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub const fn index(value: u64) -> usize {
    value as usize
}

/// A length in memory as a file offset.
#[must_use]
pub const fn offset(value: usize) -> u64 {
    value as u64
}

/// A file offset as Java's signed `long`. Offsets in a store stay far below 2^63.
#[must_use]
#[allow(clippy::cast_possible_wrap)]
pub const fn java_long(value: u64) -> i64 {
    value as i64
}

/// A Java `long` that may be negative, as an offset: negative becomes `None`.
#[must_use]
#[allow(clippy::cast_sign_loss)]
pub const fn from_java_long(value: i64) -> Option<u64> {
    if value < 0 { None } else { Some(value as u64) }
}

/// A Java `int` that may be negative, as a length: negative becomes `None`.
#[must_use]
#[allow(clippy::cast_sign_loss)]
pub const fn from_java_int(value: i32) -> Option<u32> {
    if value < 0 { None } else { Some(value as u32) }
}

/// A length below 2^31 as Java's `int`; larger ones saturate, and no caller has them.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
pub const fn java_int(value: usize) -> i32 {
    if value > i32::MAX as usize { i32::MAX } else { value as i32 }
}

/// The bits of an unsigned word as Java's `int`, as Java itself sees an unsigned checksum or magic.
#[must_use]
#[allow(clippy::cast_possible_wrap)]
pub const fn bits_as_int(value: u32) -> i32 {
    value as i32
}

/// The bits of a Java `int` as an unsigned word.
#[must_use]
#[allow(clippy::cast_sign_loss)]
pub const fn int_as_bits(value: i32) -> u32 {
    value as u32
}
