//! Big-endian fields.

use mqstore_core::format::be::{FieldReader, FieldWriter, i32_at, i64_at};
use proptest::prelude::*;

#[test]
fn fields_are_read_one_behind_the_other_until_the_bytes_end() {
    let mut reader = FieldReader::new(&[0x80, 0, 0, 1, 0xff, 0xfe, 9, 8, 7]);
    assert_eq!(reader.i32(), Some(i32::MIN + 1));
    assert_eq!(reader.i16(), Some(-2));
    assert_eq!(reader.u8(), Some(9));
    assert_eq!(reader.i64(), None);
    assert_eq!(reader.bytes(3), None, "a read that fails takes nothing");
    assert_eq!(reader.bytes(2), Some(&[8, 7][..]));
    assert_eq!(reader.bytes(0), Some(&[][..]));
    assert_eq!(reader.u8(), None);
}

#[test]
fn a_place_past_the_end_holds_nothing() {
    let bytes = [0, 0, 0, 0, 0, 0, 1, 2];
    assert_eq!((i32_at(&bytes, 4), i32_at(&bytes, 5), i32_at(&bytes, 9)), (Some(258), None, None));
    assert_eq!((i64_at(&bytes, 0), i64_at(&bytes, 1), i64_at(&bytes, usize::MAX)), (Some(258), None, None));
}

proptest! {
    #[test]
    fn what_was_written_is_read(int in any::<i32>(), long in any::<i64>(), bytes in any::<[u8; 3]>()) {
        let mut out = FieldWriter::<15>::default();
        prop_assert_eq!(out.written(), b"");
        out.i32(int);
        out.i64(long);
        out.bytes(&bytes);
        let mut reader = FieldReader::new(out.written());
        prop_assert_eq!((reader.i32(), reader.i64(), reader.array()), (Some(int), Some(long), Some(bytes)));
        prop_assert_eq!(reader.u8(), None);
    }
}
