//! Property strings.

use std::borrow::Cow;

use mqstore_core::format::java_hash_map::JavaHashMap;
use mqstore_core::format::properties::{
    ClientProperties, DispatchProperties, KEYS, TAGS, UNIQ_KEY, WAIT, encode, find, pairs, replace, to_map,
    without,
};
use proptest::collection::vec;
use proptest::prelude::*;

type Pair<'a> = (&'a [u8], &'a [u8]);

fn read(properties: &[u8]) -> Vec<Pair<'_>> {
    pairs(properties).collect()
}

#[test]
fn pairs_stand_between_separators() {
    assert_eq!(read(b""), []);
    assert_eq!(read(b"a\x011"), [(&b"a"[..], &b"1"[..])]);
    let two: [Pair<'_>; 2] = [(b"a", b"1"), (b"b", b"2")];
    assert_eq!(read(b"a\x011\x02b\x012"), two);
    assert_eq!(read(b"a\x011\x02b\x012\x02"), two, "RocketMQ before 4.9.3 ends with a separator");
}

#[test]
fn what_is_no_pair_is_passed_over() {
    assert_eq!(read(b"\x02\x02a\x011\x02alone\x02\x01value\x02name\x01\x02"), [(&b"a"[..], &b"1"[..])]);
    assert_eq!(
        read(b"a\x01b\x01c"),
        [(&b"a"[..], &b"b\x01c"[..])],
        "only the first separator of a pair counts"
    );
}

#[test]
fn of_two_values_of_a_name_the_last_counts() {
    let properties = b"a\x011\x02b\x012\x02a\x013";
    assert_eq!(find(properties, b"a"), Some(&b"3"[..]));
    assert_eq!(to_map(properties).get(b"a"), Some(&b"3"[..]));
    assert_eq!((find(properties, b"c"), find(properties, b"")), (None, None));
    assert_eq!(find(b"ab\x011", b"a"), None, "a name is compared whole");
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    assert_eq!(replace(b"a\x011\x02b\x012\x02", b"a", b"long"), b"a\x01long\x02b\x012\x02");
    assert_eq!(replace(b"a\x011\x02b\x012", b"b", b""), b"a\x011\x02b\x01");
    assert_eq!(replace(b"ab\x011", b"a", b"x"), b"ab\x011");
    assert_eq!(replace(b"a\x011\x02a\x012", b"a", b"x"), b"a\x01x\x02a\x01x");
    assert_eq!(replace(b"", b"a", b"x"), b"");
}

#[test]
fn one_property_is_left_out() {
    assert_eq!(without(b"a\x011\x02b\x012\x02a\x013", b"a"), &b"b\x012\x02"[..]);
    assert_eq!(without(b"ab\x011\x02b\x012", b"a"), &b"ab\x011\x02b\x012"[..]);
    assert!(matches!(without(b"b\x012", b"a"), Cow::Borrowed(b"b\x012")), "nothing is copied for nothing");
}

#[test]
fn a_client_gives_no_empty_keys_or_tags() {
    let client = ClientProperties::of(Some(b"k"), Some(b"u"), Some(b"t"), false);
    let expected: [Pair<'_>; 4] = [(KEYS, b"k"), (UNIQ_KEY, b"u"), (WAIT, b"false"), (TAGS, b"t")];
    assert_eq!(client.pairs().collect::<Vec<_>>(), expected);
    let client = ClientProperties::of(Some(b""), Some(b"u"), Some(b""), true);
    assert_eq!(client.pairs().collect::<Vec<_>>(), expected[1..2]);
}

#[test]
fn what_separates_or_is_zero_is_not_plain() {
    assert!(ClientProperties::of(Some(b"k\x03"), Some(b"u"), Some(b"\x80\xFF"), false).is_plain());
    assert!(ClientProperties::of(None, None, None, true).is_plain());
    for byte in [0, 1, 2] {
        let text = [b'a', byte];
        for at in 0..3 {
            let of = |number| if number == at { &text[..] } else { b"a" };
            let client = ClientProperties::of(Some(of(0)), Some(of(1)), Some(of(2)), true);
            assert!(!client.is_plain(), "{byte} in {at}");
        }
    }
}

#[test]
fn a_map_is_written_without_a_separator_at_the_end() {
    let mut map = JavaHashMap::default();
    assert_eq!(encode(&map), b"");
    map.put(b"KEYS", &b"k1 k2"[..]);
    map.put(b"TAGS", &b"T"[..]);
    assert_eq!(encode(&map), b"KEYS\x01k1 k2\x02TAGS\x01T");
}

#[test]
fn the_properties_of_every_client_are_in_the_order_of_the_map() {
    let values: [Option<&[u8]>; 2] = [None, Some(b"v")];
    for number in 0..16 {
        let of = |bit: u32| values[usize::from(number >> bit & 1 == 1)];
        let client = ClientProperties::of(of(0), of(1), of(3), of(2).is_none());
        let mut map = JavaHashMap::default();
        let wait = of(2).map(|_| &b"false"[..]);
        for (name, value) in [(UNIQ_KEY, of(1)), (TAGS, of(3)), (KEYS, of(0)), (WAIT, wait)] {
            value.into_iter().for_each(|value| map.put(name, value));
        }
        let mut encoded = Vec::new();
        client.encode_into(&mut encoded);
        assert_eq!(encoded, encode(&map));
    }
}

#[test]
fn dispatch_finds_what_it_needs_in_one_pass() {
    let properties = b"KEYS\x01k1  k2\x02x\x01y\x02UNIQ_KEY\x01u\x02TAGS\x01t\x02DELAY\x013\
        \x02MQSTORE_DELIVER_AT\x019\x02INNER_MULTI_DISPATCH\x01a,b\x02INNER_MULTI_QUEUE_OFFSET\x011,2";
    let found = DispatchProperties::of(properties);
    let expected = DispatchProperties {
        keys: Some(b"k1  k2"),
        uniq_key: Some(b"u"),
        tags: Some(b"t"),
        delay: Some(b"3"),
        deliver_at: Some(b"9"),
        multi_dispatch: Some(b"a,b"),
        multi_queue_offset: Some(b"1,2"),
    };
    assert_eq!(found, expected);
    let keys: Vec<_> = found.index_keys().collect();
    assert_eq!(keys, [&b"u"[..], b"k1", b"k2"], "the unique key first, empty keys left out");
    assert_eq!(DispatchProperties::of(b"x\x01y"), DispatchProperties::default());
    assert_eq!(DispatchProperties::default().index_keys().count(), 0);
}

proptest! {
    #[test]
    fn what_was_written_is_read(map in vec(("[a-z]{1,4}", "[^\x01\x02]{1,8}"), 0..20)) {
        let mut java = JavaHashMap::default();
        map.iter().for_each(|(name, value)| java.put(name.as_bytes(), value.as_bytes()));
        let bytes = encode(&java);
        prop_assert_eq!(read(&bytes), java.ordered());
        for (name, value) in java.ordered() {
            prop_assert_eq!(find(&bytes, name), Some(value));
        }
        // Reading and writing again changes nothing: what was read is in the map's order.
        prop_assert_eq!(encode(&to_map(&bytes)).len(), bytes.len());
    }

    #[test]
    fn any_bytes_have_pairs_with_names_and_values(
        bytes in vec(prop_oneof![Just(0), Just(1_u8), Just(2), Just(b'a'), 3..=u8::MAX, 3..=u8::MAX], 0..60)
    ) {
        let by_rule = bytes.split(|&byte| byte == 2).filter_map(|pair| {
            let end = pair.iter().position(|&byte| byte == 1)?;
            Some((&pair[..end], &pair[end + 1..])).filter(|(name, value)| !name.is_empty() && !value.is_empty())
        });
        prop_assert!(pairs(&bytes).eq(by_rule));
        let replaced = replace(&bytes, b"a", b"v");
        let others = |properties| pairs(properties).filter(|(name, _)| *name != b"a").count();
        prop_assert_eq!(others(&replaced), others(&bytes));
        prop_assert!(find(&bytes, b"a").is_none() || find(&replaced, b"a") == Some(b"v"));
    }
}
