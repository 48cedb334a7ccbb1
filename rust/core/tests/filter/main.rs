//! Filters of any text, over any properties.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test stops at what is wrong

use mqstore_core::filter::SqlFilter;
use proptest::prelude::*;

/// Words of the language in any order: much of it is nearly an expression.
fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a",
        "b",
        "'x'",
        "'",
        "1",
        "-1",
        "1.5",
        "1e400",
        "9223372036854775808",
        "0x1F",
        "017",
        "1L",
        "TRUE",
        "NULL",
        "AND",
        "OR",
        "NOT",
        "IS",
        "IN",
        "BETWEEN",
        "LIKE",
        "CONTAINS",
        "=",
        "<>",
        "<",
        ">=",
        "(",
        ")",
        ",",
        "+",
        "-",
        "--",
        "/*",
        "*/",
        "\u{0}",
        "\u{1F600}",
        "\n",
        "`",
        "$",
        "_",
    ]);
    prop::collection::vec(word, 0..20).prop_map(|words| words.join(" "))
}

fn properties() -> impl Strategy<Value = Vec<u8>> {
    let pair = (
        prop::sample::select(vec!["a", "b", ""]),
        prop::sample::select(vec!["1", "x", "1e999", "TRUE", "\u{ff}"]),
    );
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        prop::collection::vec(pair, 0..5).prop_map(|pairs| {
            pairs
                .iter()
                .map(|(name, value)| format!("{name}\u{1}{value}\u{2}"))
                .collect::<String>()
                .into_bytes()
        }),
    ]
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_says_where_it_is_none(
        text in prop_oneof![words(), any::<String>()],
        properties in properties(),
    ) {
        match SqlFilter::compile(&text, false) {
            Ok(filter) => {
                // What compat passes over is not there.
                let compat = SqlFilter::compile(&text, true).unwrap();
                prop_assert_eq!(filter.matches(&properties), compat.matches(&properties));
            }
            Err(error) => prop_assert!(error.to_string().contains("at character"), "{}", error),
        }
    }
}

/// However deep: the stack is not used up.
#[test]
fn depth_is_bounded() {
    for text in ["(", "NOT ", "a = 1 OR ", "-", "NOT (", "a IN ('x', "] {
        let deep = format!("{}a = 1", text.repeat(20_000));
        if let Ok(filter) = SqlFilter::compile(&deep, false) {
            let _whether_or_not = filter.matches(b"a\x011\x02");
        }
    }
    let closed = format!("{}a = 1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(SqlFilter::compile(&closed, false).is_err());
}

/// What nests as deep as it may is compiled, evaluated and dropped on the smallest stack that threads get by default.
#[test]
fn the_deepest_expression_needs_little_stack() {
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let deepest = small.spawn(|| {
        for (open, close) in [("(", ")"), ("NOT ", ""), ("a = 1 AND (", ")"), ("a = 2 OR NOT (", ")")] {
            let nested = |depth| format!("{}a = 1{}", open.repeat(depth), close.repeat(depth));
            let depth =
                (1..=200).rev().find(|&depth| SqlFilter::compile(&nested(depth), false).is_ok()).unwrap();
            assert!(depth >= 99, "{open} {depth}");
            let filter = SqlFilter::compile(&nested(depth), false).unwrap();
            let passes = !open.contains("NOT") || depth % 2 == 0;
            assert_eq!(filter.clone().matches(b"a\x011\x02"), passes, "{open} {depth}");
        }
    });
    deepest.unwrap().join().unwrap();
}

/// As the grammar has it: equality binds weaker than comparison, behind `IS NULL` too.
#[test]
fn no_comparison_binds_what_asked_for_null() {
    for behind in ["> 1", "BETWEEN 1 AND 2", "IN ('x')", "NOT IN ('x')"] {
        let text = format!("b IS NULL {behind}");
        assert!(SqlFilter::compile(&text, false).is_err(), "{text}");
        assert!(SqlFilter::compile(&format!("({text})"), true).is_err(), "{text}");
        assert!(SqlFilter::compile(&text, true).is_ok_and(|filter| filter.matches(b"a\x011\x02")), "{text}");
    }
    assert!(SqlFilter::compile("b IS NULL = TRUE AND b IS NULL", false).unwrap().matches(b"a\x011\x02"));
}

/// What stands twice in 4.9.3's comparisons does not double with each level.
#[test]
fn a_value_between_two_others_stands_once() {
    let mut text = "a BETWEEN 1 AND 2".to_owned();
    for _ in 0..60 {
        text = format!("-({text}) BETWEEN 1 AND 2");
    }
    let filter = SqlFilter::compile(&text, false).unwrap();
    assert!(!filter.matches(b"a\x011\x02"), "the negative of what is true or false is unknown");
    for (text, number, expected) in [
        ("a BETWEEN 1 AND 3", "2", true),
        ("a BETWEEN 1 AND 3", "3", true),
        ("a BETWEEN 1 AND 3", "4", false),
        ("a NOT BETWEEN 1 AND 3", "0", true),
        ("a NOT BETWEEN 1 AND 3", "1", false),
        ("NOT (b BETWEEN 1 AND 3)", "2", false),
        // What the first comparison decides needs no second one, with what is no number.
        ("a BETWEEN 1 AND t", "0", false),
        ("a NOT BETWEEN 1 AND t", "0", true),
        ("a NOT BETWEEN 1 AND t", "1", false),
    ] {
        let properties = format!("a\x01{number}\x02t\x01x\x02");
        let filter = SqlFilter::compile(text, false).unwrap();
        assert_eq!(filter.matches(properties.as_bytes()), expected, "{text} of {number}");
    }
    for text in
        ["TRUE BETWEEN 1 AND 2", "a BETWEEN 'x' AND 'y'", "a BETWEEN 3 AND 1", "a NOT BETWEEN 1 AND TRUE"]
    {
        assert!(SqlFilter::compile(text, false).is_err(), "{text}");
    }
}

/// Each of them would be looked behind for the end of its line: 1 MiB of them took minutes.
#[test]
fn signs_that_begin_no_comment_are_two_signs() {
    let text = ["a=--1"; 100_000].join(" OR ");
    assert!(SqlFilter::compile(&text, false).unwrap().matches(b"a\x011\x02"));
    let text = format!("a = 2 -- or not\n OR {text}");
    assert!(SqlFilter::compile(&text, false).unwrap().matches(b"a\x012\x02"));
}
