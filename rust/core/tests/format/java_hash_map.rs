//! The order of Java's `HashMap`; the expected orders were printed by a JDK.

use mqstore_core::format::java_hash_map::JavaHashMap;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn order(names: impl IntoIterator<Item = impl AsRef<str>>, removed: &[&str]) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    let mut map = JavaHashMap::default();
    for name in &names {
        map.put(name.as_bytes(), &b"v"[..]);
    }
    for name in removed {
        map.remove(name.as_bytes());
    }
    let order: Vec<_> =
        map.ordered().into_iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
    order.join(" ")
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// Names of one hash: `Aa` and `BB` have the same.
fn colliding(count: usize) -> Vec<String> {
    let pair = |number: usize, bit: usize| if number >> bit & 1 == 0 { "Aa" } else { "BB" };
    (0..count).map(|number| (0..4).map(|bit| pair(number, bit)).collect()).collect()
}

#[test]
fn properties_stand_in_javas_order() {
    assert_eq!(
        order(
            [
                "KEYS",
                "UNIQ_KEY",
                "CLUSTER",
                "TAGS",
                "WAIT",
                "DELAY",
                "REAL_TOPIC",
                "REAL_QID",
                "MIN_OFFSET",
                "MAX_OFFSET",
                "CONSUME_START_TIME"
            ],
            &[]
        ),
        "MIN_OFFSET REAL_TOPIC MAX_OFFSET KEYS CONSUME_START_TIME UNIQ_KEY CLUSTER WAIT DELAY TAGS REAL_QID"
    );
}

#[test]
fn the_table_doubles_behind_its_twelfth_entry() {
    let even = (0..12).map(|number| format!("name{}", number * 2));
    assert_eq!(
        order(even, &[]),
        "name6 name14 name4 name12 name22 name10 name8 name20 name2 name18 name0 name16"
    );
    assert_eq!(order(numbered("k", 12), &[]), "k0 k1 k2 k3 k4 k5 k11 k6 k10 k7 k8 k9");
    assert_eq!(order(numbered("k", 13), &[]), "k0 k1 k2 k3 k4 k5 k11 k6 k10 k7 k8 k12 k9");
    assert_eq!(
        order(numbered("property-", 30), &[]),
        "property-19 property-9 property-8 property-24 property-25 property-22 property-23 property-28 \
         property-29 property-26 property-27 property-20 property-21 property-5 property-13 property-4 \
         property-14 property-7 property-11 property-6 property-12 property-1 property-17 property-0 \
         property-18 property-3 property-15 property-2 property-16 property-10"
    );
}

#[test]
fn a_table_that_has_grown_does_not_shrink() {
    assert_eq!(order(numbered("k", 13), &["k3", "k7"]), "k0 k1 k2 k4 k5 k11 k6 k10 k8 k12 k9");
}

#[test]
fn names_of_one_hash_stand_as_they_came() {
    assert_eq!(
        order(colliding(8), &[]),
        "AaAaAaAa BBAaAaAa AaBBAaAa BBBBAaAa AaAaBBAa BBAaBBAa AaBBBBAa BBBBBBAa"
    );
    assert_eq!(
        order(colliding(8).into_iter().chain(["x", "y", "property"].map(String::from)), &[]),
        "AaAaAaAa BBAaAaAa AaBBAaAa BBBBAaAa AaAaBBAa BBAaBBAa AaBBBBAa BBBBBBAa x property y"
    );
}

#[test]
fn a_bucket_of_more_than_eight_doubles_a_small_table() {
    let one_bucket = ["s8", "s12", "s23", "s34", "s45", "s56", "s67", "s78", "s89", "s102"];
    assert_eq!(order(&one_bucket[..9], &[]), "s8 s12 s23 s34 s45 s56 s67 s78 s89");
    assert_eq!(order(one_bucket, &[]), "s12 s34 s56 s78 s102 s8 s23 s45 s67 s89");
    assert_eq!(
        order(one_bucket.into_iter().chain(["a", "b", "z"]), &[]),
        "s12 s34 s56 s78 s102 a b s8 s23 s45 s67 s89 z"
    );
}

#[test]
fn a_bucket_of_more_than_eight_doubles_no_large_table() {
    let one_bucket = "s8 s1040 s1062 s1084 s1161 s1183 s1260 s1282 s1381 s1480 s2091 s2190 s3081";
    let in_java = "s1183 s8 s1040 s1062 s1084 s1161 s1260 s1282 s1381 s1480 s2091 s2190 s3081";
    let without_the_root = |order: &str| order.replace("s1183 ", "");
    assert_eq!(without_the_root(&order(one_bucket.split(' '), &[])), without_the_root(in_java));
}

#[test]
fn a_map_takes_in_another() {
    let (mut map, mut other) = (JavaHashMap::default(), JavaHashMap::default());
    assert!(map.is_empty());
    map.put(b"a", &b"1"[..]);
    other.put(b"b", &b"2"[..]);
    other.put(b"a", &b"3"[..]);
    map.put_all(&other);
    assert!(!map.is_empty());
    assert_eq!(map.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"3"[..]), (b"b", b"2")]);
}

#[test]
fn a_name_that_is_put_again_keeps_its_place_and_gets_the_new_value() {
    let mut map = JavaHashMap::default();
    map.put(b"BB", &b"1"[..]);
    map.put(b"Aa", &b"2"[..]);
    map.put(b"BB", b"3".to_vec());
    assert_eq!(map.ordered(), [(&b"BB"[..], &b"3"[..]), (b"Aa", b"2")]);
    assert_eq!((map.get(b"BB"), map.get(b"CC")), (Some(&b"3"[..]), None));
    map.remove(b"BB");
    assert_eq!(map.ordered(), [(&b"Aa"[..], &b"2"[..])]);
}

proptest! {
    #[test]
    fn every_name_stands_once_with_its_last_value(
        pairs in vec(("[a-e]{0,3}", option::weighted(0.9, any::<u8>())), 0..80),
    ) {
        let mut map = JavaHashMap::default();
        let mut model = std::collections::BTreeMap::new();
        for (name, value) in &pairs {
            let name = name.as_bytes();
            match value {
                Some(value) => {
                    map.put(name, vec![*value]);
                    model.insert(name, vec![*value]);
                }
                None => {
                    map.remove(name);
                    model.remove(name);
                }
            }
            prop_assert_eq!(map.get(name), model.get(name).map(|value| &value[..]));
        }
        let mut found = map.ordered();
        found.sort_unstable();
        let expected: Vec<_> = model.iter().map(|(name, value)| (*name, &value[..])).collect();
        prop_assert_eq!(found, expected);
    }
}
