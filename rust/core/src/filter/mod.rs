//! SQL92 filters: expressions over a message's properties, as consumers subscribe with.
//!
//! What an expression means, and which are refused, is rocketmq-filter's to say: numbers in it have
//! the types of Java's, properties are text that is converted to what it is compared with, what is
//! missing is unknown, and a property that cannot be converted makes the whole expression false. An
//! expression is text from anywhere: its length and depth are bounded.
//! Source: `SelectorParser`, `ComparisonExpression`, `UnaryExpression`, `LogicExpression`.

pub mod bit_map;
mod evaluate;
mod expression;
mod number;
mod parse;
mod token;

use crate::error::{Error, Result};
use expression::Expression;

/// Most bytes of an expression. A Java client's subscription is far smaller.
const MAX_SIZE: usize = 1 << 20;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct SqlFilter {
    text: String,
    expression: Expression,
}

impl SqlFilter {
    /// Compiles an expression. With `compat` what follows a complete expression is passed over, as
    /// 4.9.3 does it: `a = 1 b = 2` is `a = 1` there.
    ///
    /// # Errors
    /// [`Error::Option`] with the place where the expression is none.
    pub fn compile(text: &str, compat: bool) -> Result<Self> {
        let refuse = |at: usize, reason: &str| Error::Option {
            option: "expression",
            value: shown(text),
            reason: format!(
                "{reason}, at character {}",
                text.get(..at).map_or(0, |head| head.chars().count()) + 1
            ),
        };
        if text.len() > MAX_SIZE {
            let value = shown(text);
            return Err(Error::Option {
                option: "expression",
                value,
                reason: format!("longer than {MAX_SIZE} bytes"),
            });
        }
        let expression = parse::parse(text, compat).map_err(|fault| refuse(fault.at, &fault.reason))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Whether a message with this property string passes. Source: `ExpressionMessageFilter`.
    #[must_use]
    pub fn matches(&self, properties: &[u8]) -> bool {
        matches!(evaluate::evaluate(&self.expression, properties), Ok(evaluate::Value::Bool(true)))
    }

    /// The expression as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for SqlFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SqlFilter {}

fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 200;
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::SqlFilter;

    const PROPERTIES: &[u8] = b"a\x013\x02price\x0112.50\x02region\x01cn\x02flag\x01true\x02odd\x01it's";

    /// `None` where it does not compile.
    fn passes(text: &str) -> Option<bool> {
        SqlFilter::compile(text, false).ok().map(|filter| filter.matches(PROPERTIES))
    }

    #[test]
    fn what_passes_and_what_does_not() {
        for text in [
            "a = 3",
            "a <> 4",
            "a > 2 AND a < 4",
            "a >= 3 and a <= 3",
            "price > 12.4",
            "a BETWEEN 1 AND 3",
            "a NOT BETWEEN 4 AND 5",
            "region IN ('us', 'cn')",
            "region NOT IN ('us')",
            "b IS NULL",
            "a IS NOT NULL",
            "NOT (a = 4)",
            "a = 4 OR region = 'cn'",
            "odd = 'it''s'",
            "TRUE",
            "a = '3'",
            "flag = TRUE",
            "-3 < a",
            "/* x */ a = 3 -- y\n",
            "b = c",
            "a = 3 OR b = 1",
            "3 = a",
            "a > -1",
            "a = +3",
            "a < price",
        ] {
            assert_eq!(passes(text), Some(true), "{text}");
        }
        for text in [
            "a = 4",
            "a <> 3",
            "b = 1",
            "NOT (b = 1)",
            "b <> 1",
            "region > 5",
            "region = 5 OR TRUE",
            "a",
            "flag",
            "FALSE",
            "NULL",
            "price > 12",
            "b IN ('x')",
            "b NOT IN ('x')",
            "b IS NOT NULL",
            "-a = 3",
            "a BETWEEN 4 AND 5",
            "TRUE = flag",
        ] {
            assert_eq!(passes(text), Some(false), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in [
            "",
            "a =",
            "= 3",
            "a = 3 b",
            "a > 'x'",
            "a > TRUE",
            "a = NULL",
            "a BETWEEN 3 AND 1",
            "5",
            "'x'",
            "a IN ()",
            "a IN (5)",
            "5 IN ('x')",
            "(a = 3",
            "a = 3)",
            "a # 3",
            "a = 'x",
            "a = 99999999999999999999",
            "a = 0.0",
            "a = 1e999",
            "TRUE = 5",
            "a NOT b",
            "a IS 5",
            "a BETWEEN NULL AND 5",
            "-a",
            "\u{e4} = 1",
            "/* a = 1",
            "a = 1 AND",
        ] {
            assert!(SqlFilter::compile(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn compat_passes_over_what_follows() {
        assert!(SqlFilter::compile("a = 3 b", true).is_ok_and(|filter| filter.matches(PROPERTIES)));
        assert!(SqlFilter::compile("a = 3 #", true).is_err());
    }

    #[test]
    fn depth_is_bounded_and_length_is_not() {
        for deep in ["(", "NOT ", "- ", "+ "] {
            assert!(SqlFilter::compile(&format!("{}a = 1", deep.repeat(100_000)), false).is_err());
        }
        assert!(SqlFilter::compile(&format!("a{}", " = a".repeat(100_000)), false).is_err());
        assert!(SqlFilter::compile(&format!("a{}", " IS NULL".repeat(100_000)), false).is_err());
        let long = format!("a = 1{} OR a = 3", " OR a = 2".repeat(100_000));
        assert!(SqlFilter::compile(&long, false).is_ok_and(|filter| filter.matches(PROPERTIES)));
        assert!(SqlFilter::compile(&" ".repeat(1 << 21), false).is_err());
    }

    #[test]
    fn no_text_does_harm() {
        let words = [
            "a", "'x'", "(", ")", "NOT", "AND", "OR", "IS", "NULL", "IN", "BETWEEN", "5", "1.5", "-", "=",
            "<>", ",", "'", "\u{503c}", "/*", "--", "\n",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(state >> 33).unwrap_or(0) % words.len();
                text.push_str(words.get(at).copied().unwrap_or_default());
                text.push(' ');
            }
            for compat in [false, true] {
                if let Ok(filter) = SqlFilter::compile(&text, compat) {
                    let _whatever_it_gives = filter.matches(PROPERTIES);
                }
            }
        }
    }
}
