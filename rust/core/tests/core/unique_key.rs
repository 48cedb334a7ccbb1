//! Unique keys in the Java client's form.

use mqstore_core::unique_key::UniqueKeys;

fn next(keys: &UniqueKeys, now_ms: i64) -> String {
    String::from_utf8(keys.next(now_ms).as_bytes().to_vec()).unwrap()
}

#[test]
fn keys_differ_and_have_their_parts_in_place() {
    let keys = UniqueKeys::new(0xabcd);
    let now = 1_700_000_000_000;
    let (first, second) = (next(&keys, now), next(&keys, now + 5));
    assert!(first.len() == 32 || first.len() == 56, "{first}");
    assert!(first.bytes().all(|digit| digit.is_ascii_digit() || (b'A'..=b'F').contains(&digit)));
    let tail = |key: &str, from: usize, len: usize| {
        let start = key.len() - from;
        u64::from_str_radix(key.get(start..start + len).unwrap(), 16).unwrap()
    };
    let pid = u64::from(std::process::id() & 0xffff);
    assert_eq!((tail(&first, 24, 4), tail(&first, 20, 8)), (pid, 0xabcd));
    assert_eq!(tail(&second, 12, 8) - tail(&first, 12, 8), 5, "milliseconds since the month began");
    assert_eq!((tail(&first, 4, 4), tail(&second, 4, 4)), (0, 1));
}

#[test]
fn a_new_month_begins_again() {
    let keys = UniqueKeys::new(0);
    let millis =
        |key: String| u32::from_str_radix(key.get(key.len() - 12..key.len() - 4).unwrap(), 16).unwrap();
    let in_january = millis(next(&keys, 1_706_000_000_000));
    let in_march = millis(next(&keys, 1_709_400_000_000));
    assert!(in_march < in_january, "{in_march} {in_january}");
    assert!(in_march < 31 * 24 * 3_600_000);
    let _any_time_has_one = [i64::MIN, -1, 0, i64::MAX].map(|now| next(&keys, now));
}

#[test]
fn many_keys_of_one_time_differ() {
    let keys = UniqueKeys::new(0);
    let now = 1_700_000_000_000;
    let mut seen = std::collections::HashSet::new();
    // A clock that stands, is set back, and goes on.
    for (now, count) in [(now, 140_000), (now - 1000, 70_000), (0, 10), (now + 1, 70_000), (now + 9, 70_000)]
    {
        assert!((0..count).all(|_| seen.insert(next(&keys, now))), "{now}");
    }
}
