//! What an expression gives for a message's properties.
//! Source: `ComparisonExpression.evaluate` and `__compare`, `UnaryExpression`, `LogicExpression`.

use std::cmp::Ordering;

use super::expression::{Comparison, Constant, Expression, Node};
use super::number;
use crate::format::properties;

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Unknown: a property is missing.
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a [u8]),
}

/// A property cannot be converted to what it is compared with: the message does not pass, whatever
/// else the expression says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inconvertible;

impl<'a> Value<'a> {
    pub(super) fn of(constant: &'a Constant) -> Self {
        match constant {
            Constant::Null => Self::Null,
            Constant::Bool(value) => Self::Bool(*value),
            Constant::Int(value) => Self::Int(*value),
            Constant::Long(value) => Self::Long(*value),
            Constant::Double(value) => Self::Double(*value),
            Constant::Text(text) => Self::Text(text.as_bytes()),
        }
    }
}

/// Evaluates an expression over a property string.
pub(super) fn evaluate<'a>(expression: &'a Expression, of: &'a [u8]) -> Result<Value<'a>, Inconvertible> {
    let property = |name: &str| properties::find(of, name.as_bytes()).map_or(Value::Null, Value::Text);
    Ok(match &expression.node {
        Node::Constant(constant) => Value::of(constant),
        Node::Property(name) => property(name),
        Node::Negate(part) => match evaluate(part, of)? {
            Value::Int(value) => Value::Int(value.wrapping_neg()),
            Value::Long(value) => Value::Long(value.wrapping_neg()),
            Value::Double(value) => Value::Double(-value),
            _ => Value::Null,
        },
        Node::Not(part) => match evaluate(part, of)? {
            Value::Bool(value) => Value::Bool(!value),
            _ => Value::Null,
        },
        Node::BooleanCast(part) => match evaluate(part, of)? {
            Value::Null => Value::Null,
            value => Value::Bool(value == Value::Bool(true)),
        },
        Node::Equal(left, right) => equal(evaluate(left, of)?, evaluate(right, of)?)?,
        Node::Compare(comparison, left, right) => {
            compared(*comparison, evaluate(left, of)?, || evaluate(right, of))?
        }
        Node::In { property: name, texts, not } => match property(name) {
            Value::Text(text) => {
                let is_in = texts.binary_search_by(|known| known.as_bytes().cmp(text)).is_ok();
                Value::Bool(is_in != *not)
            }
            _ => Value::Null,
        },
        Node::Between { value, low, high, not } => {
            let value = evaluate(value, of)?;
            let (at_low, at_high) = if *not {
                (Comparison::Less, Comparison::Greater)
            } else {
                (Comparison::GreaterEqual, Comparison::LessEqual)
            };
            let sides = [(at_low, low), (at_high, high)];
            let sides = sides.into_iter().map(|(at, bound)| compared(at, value, || evaluate(bound, of)));
            until(sides, *not)?
        }
        Node::And(parts) => until(parts.iter().map(|part| evaluate(part, of)), false)?,
        Node::Or(parts) => until(parts.iter().map(|part| evaluate(part, of)), true)?,
    })
}

/// The parts one after another: the first that decides, unknown where one was, otherwise the rest.
fn until<'a>(
    parts: impl Iterator<Item = Result<Value<'a>, Inconvertible>>,
    decides: bool,
) -> Result<Value<'a>, Inconvertible> {
    let mut is_unknown = false;
    for part in parts {
        match part? {
            Value::Bool(value) if value == decides => return Ok(Value::Bool(decides)),
            Value::Bool(_) => {}
            _ => is_unknown = true,
        }
    }
    Ok(if is_unknown { Value::Null } else { Value::Bool(!decides) })
}

fn equal<'a>(left: Value<'a>, right: Value<'a>) -> Result<Value<'a>, Inconvertible> {
    match (left, right) {
        (Value::Null, Value::Null) => Ok(Value::Bool(true)),
        (Value::Null, _) => Ok(Value::Null),
        (_, Value::Null) => Ok(Value::Bool(false)),
        _ => Ok(Value::Bool(compare(left, right)?.is_eq())),
    }
}

fn compared<'a>(
    comparison: Comparison,
    left: Value<'a>,
    right: impl FnOnce() -> Result<Value<'a>, Inconvertible>,
) -> Result<Value<'a>, Inconvertible> {
    if left == Value::Null {
        return Ok(Value::Null);
    }
    let ordering = match (left, right()?) {
        (_, Value::Null) => return Ok(Value::Null),
        (Value::Text(left), Value::Text(right)) => {
            let (left, right) = (number::double(left), number::double(right));
            double_order(left.ok_or(Inconvertible)?, right.ok_or(Inconvertible)?)
        }
        (left, right) => compare(left, right)?,
    };
    Ok(Value::Bool(comparison.holds(ordering)))
}

/// How two values stand to each other, after one was converted to the other's type.
/// What cannot be compared is less.
pub(super) fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Inconvertible> {
    use Value::{Bool, Double, Int, Long, Null, Text};
    let int = |text| number::int(text).ok_or(Inconvertible);
    let long = |text| number::long(text).ok_or(Inconvertible);
    let double = |text| number::double(text).ok_or(Inconvertible);
    Ok(match (left, right) {
        // Java's `Boolean.valueOf` takes any case, and everything else for false.
        (Text(left), Bool(right)) => left.eq_ignore_ascii_case(b"true").cmp(&right),
        (Bool(left), Bool(right)) => left.cmp(&right),
        // 4.9.3 casts the wrong side here, which fails.
        (Bool(_), Text(_)) | (Null, _) | (_, Null) => return Err(Inconvertible),
        (Bool(_), _) | (_, Bool(_)) => Ordering::Less,
        (Text(left), Text(right)) => left.cmp(right),
        (Int(left), Text(right)) => left.cmp(&int(right)?),
        (Text(left), Int(right)) => int(left)?.cmp(&right),
        (Long(left), Text(right)) => left.cmp(&long(right)?),
        (Text(left), Long(right)) => long(left)?.cmp(&right),
        (Double(left), Text(right)) => double_order(left, double(right)?),
        (Text(left), Double(right)) => double_order(double(left)?, right),
        (Int(left), Int(right)) => left.cmp(&right),
        (Int(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Int(right)) => left.cmp(&i64::from(right)),
        (Long(left), Long(right)) => left.cmp(&right),
        (Double(left), Double(right)) => double_order(left, right),
        (Double(left), Int(right)) => double_order(left, f64::from(right)),
        (Int(left), Double(right)) => double_order(f64::from(left), right),
        (Double(left), Long(right)) => double_order(left, long_as_double(right)),
        (Long(left), Double(right)) => double_order(long_as_double(left), right),
    })
}

/// As `Double.compareTo`: every NaN is the greatest and equal to itself, −0 is less than 0.
fn double_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

/// As Java's conversion: to the nearest.
#[allow(clippy::cast_precision_loss)]
const fn long_as_double(value: i64) -> f64 {
    value as f64
}
