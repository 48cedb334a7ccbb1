//! Single bits.

use crate::fields::{Fields, is_uncovered};
use crate::subject::{Kind, Left, make};
use crate::table::Table;
use crate::trial::Whole;
use crate::{scratch, setting};

/// Bytes of which one has a bit flipped, in the short form.
const ONE_BYTE_IN: u64 = 40;

fn whole(kind: Kind) -> Whole {
    Whole::new(make(scratch().path(), kind))
}

/// Flips every bit in the long form, and otherwise one bit of one byte in so many.
fn flip_all(whole: &Whole) -> Table {
    let seed = setting("MQSTORE_SEED", fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let one_in = setting("MQSTORE_FLIPS", 0);
    let fields = Fields::of(&whole.files);
    let mut bits = Vec::new();
    for (path, content) in &whole.files {
        for at in 0..content.len() {
            if one_in > 0 {
                bits.extend((0..8).filter(|_| random.u64(..one_in) == 0).map(|bit| (path, at, bit)));
            } else if random.u64(..ONE_BYTE_IN) == 0 && fields.field(path, at) != "checkpoint: zeros" {
                bits.push((path, at, random.usize(..8)));
            }
        }
    }
    let half = bits.len() / 2;
    let (first, second) = bits.split_at(half);
    let flip = |bits: &[(&std::path::PathBuf, usize, usize)]| {
        let mut table = Table::default();
        let mut files = whole.files.clone();
        for &(path, at, bit) in bits {
            files.get_mut(path).unwrap()[at] ^= 1 << bit;
            let outcome = whole.attempt(&files);
            files.get_mut(path).unwrap()[at] ^= 1 << bit;
            table.add(fields.field(path, at), || format!("{} byte {at} bit {bit}", path.display()), &outcome);
        }
        table
    };
    let mut table = std::thread::scope(|scope| {
        let other = scope.spawn(|| flip(second));
        let mut table = flip(first);
        table.merge(other.join().unwrap());
        table
    });
    table.wrong.iter_mut().for_each(|wrong| *wrong = format!("MQSTORE_SEED={seed}: {wrong}"));
    table
}

/// Of the bits that hold something of messages, how many are found.
fn print(name: &str, table: &Table) {
    let (all, records) = (table.total(""), table.of_records());
    let share =
        |part: u64, whole: u64| format!("{part} of {whole} ({:.2} %)", 100.0 * part as f64 / whole as f64);
    println!("{name}\n{table}");
    println!("undetected in records: {}", share(records.tried - records.found, records.tried));
    println!("neither found nor harmless: {}\n", share(all.uncovered + all.missed, all.tried));
}

fn check(name: &str, left: Left) {
    let tables = [false, true].map(|with_crc| {
        let table = flip_all(&whole(Kind { left, with_crc, number: 1 }));
        print(
            &format!("{name}, {} the checksum of the record", if with_crc { "with" } else { "without" }),
            &table,
        );
        table.assert_sound();
        table
    });
    let [without, with] = &tables;
    for (kind, row) in without.rows().filter(|(_, row)| row.uncovered > 0) {
        assert!(is_uncovered(kind), "{kind}: {row:?}");
    }
    let records = with.of_records();
    assert_eq!(records.found, records.tried, "nothing of a record with a checksum is uncovered");
}

#[test]
fn a_flipped_bit_of_a_closed_store_is_found_or_harmless() {
    check("closed", Left::Closed);
}

#[test]
fn a_flipped_bit_of_a_killed_store_is_found_or_harmless() {
    check("killed", Left::Killed);
}

/// Read as none, which such a message has: the only flip of this length that leaves the sizes right.
#[test]
fn a_negative_length_where_a_message_has_no_properties_is_found() {
    let whole = whole(Kind { left: Left::Closed, with_crc: false, number: 1 });
    let fields = Fields::of(&whole.files);
    let mut tried = 0;
    for (path, content) in whole.files.iter().filter(|(path, _)| path.starts_with("commitlog")) {
        for at in 0..content.len() {
            if fields.field(path, at) == "record: properties length" && content[at..].starts_with(&[0, 0]) {
                let mut files = whole.files.clone();
                files.get_mut(path).unwrap()[at] = 0x80;
                assert!(whole.attempt(&files).is_found, "{} byte {at}", path.display());
                tried += 1;
            }
        }
    }
    assert!(tried > 0);
}
