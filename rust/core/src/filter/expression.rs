//! Expressions, and what is refused when one is made of others.
//! Source: `ComparisonExpression.create…`, `UnaryExpression.create…`, `ConstantExpression.create…`.

use std::cmp::Ordering;

use super::evaluate::{Value, compare};
use super::number;

/// How deep expressions are nested at most.
pub(super) const MAX_DEPTH: usize = 200;

/// A value that stands in an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(String),
}

/// What a comparison asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    pub(super) const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterEqual => ordering.is_ge(),
        }
    }
}

/// What an expression is.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Constant(Constant),
    Property(String),
    Negate(Box<Expression>),
    Not(Box<Expression>),
    /// A property where something true or false has to stand.
    BooleanCast(Box<Expression>),
    Equal(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    In {
        property: String,
        texts: Vec<String>,
        not: bool,
    },
    Between {
        value: Box<Expression>,
        low: Box<Expression>,
        high: Box<Expression>,
        not: bool,
    },
    And(Vec<Expression>),
    Or(Vec<Expression>),
}

/// An expression.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    pub(super) node: Node,
    depth: usize,
}

/// Why expressions cannot be put together.
pub(super) type Refusal = String;

impl Expression {
    pub(super) fn constant(constant: Constant) -> Self {
        Self { node: Node::Constant(constant), depth: 1 }
    }

    pub(super) fn property(name: &str) -> Self {
        Self { node: Node::Property(name.to_owned()), depth: 1 }
    }

    /// A whole number: an `int` where it fits, a `long` otherwise.
    pub(super) fn decimal(digits: &str) -> Result<Self, Refusal> {
        let value = number::long(digits.as_bytes()).ok_or_else(|| format!("{digits} is no 64-bit number"))?;
        Ok(Self::constant(i32::try_from(value).map_or(Constant::Long(value), Constant::Int)))
    }

    /// A number with a point or an exponent. 4.9.3 refuses zero, as less than the smallest.
    pub(super) fn float(text: &str) -> Result<Self, Refusal> {
        let value = number::double(text.as_bytes()).ok_or_else(|| format!("{text} is no number"))?;
        if value.is_infinite() || value == 0.0 {
            return Err(format!("{text} is greater than the largest or less than the smallest number"));
        }
        Ok(Self::constant(Constant::Double(value)))
    }

    fn checked(self) -> Result<Self, Refusal> {
        if self.depth > MAX_DEPTH { Err(format!("nested more than {MAX_DEPTH} deep")) } else { Ok(self) }
    }

    fn unary(part: Self, node: impl FnOnce(Box<Self>) -> Node) -> Result<Self, Refusal> {
        let depth = part.depth + 1;
        Self { node: node(Box::new(part)), depth }.checked()
    }

    fn binary(
        left: Self,
        right: Self,
        node: impl FnOnce(Box<Self>, Box<Self>) -> Node,
    ) -> Result<Self, Refusal> {
        let depth = left.depth.max(right.depth) + 1;
        Self { node: node(Box::new(left), Box::new(right)), depth }.checked()
    }

    /// Whether it gives true, false or unknown.
    const fn is_boolean(&self) -> bool {
        match &self.node {
            Node::Constant(constant) => matches!(constant, Constant::Null | Constant::Bool(_)),
            Node::Property(_) | Node::Negate(_) => false,
            _ => true,
        }
    }

    /// Source: `asBooleanExpression`.
    pub(super) fn into_boolean(self) -> Result<Self, Refusal> {
        match &self.node {
            _ if self.is_boolean() => Ok(self),
            Node::Property(_) => Self::unary(self, Node::BooleanCast),
            _ => Err("expected something that is true or false".into()),
        }
    }

    pub(super) fn negate(self) -> Result<Self, Refusal> {
        Self::unary(self, Node::Negate)
    }

    pub(super) fn not(self) -> Result<Self, Refusal> {
        Self::unary(self.into_boolean()?, Node::Not)
    }

    pub(super) fn all_of(parts: Vec<Self>) -> Result<Self, Refusal> {
        Self::several(parts, Node::And)
    }

    pub(super) fn any_of(parts: Vec<Self>) -> Result<Self, Refusal> {
        Self::several(parts, Node::Or)
    }

    fn several(parts: Vec<Self>, node: impl FnOnce(Vec<Self>) -> Node) -> Result<Self, Refusal> {
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        Self { node: node(parts), depth }.checked()
    }

    /// Source: `createEqual`.
    pub(super) fn equal(self, right: Self) -> Result<Self, Refusal> {
        for operand in [&self, &right] {
            if matches!(operand.node, Node::Constant(Constant::Null)) {
                return Err("NULL cannot be compared, IS NULL asks for it".into());
            }
        }
        if let (Node::Constant(Constant::Bool(_)), Node::Constant(other)) = (&self.node, &right.node)
            && !matches!(other, Constant::Bool(_))
        {
            return Err("TRUE and FALSE cannot be compared with another value".into());
        }
        Self::binary(self, right, Node::Equal)
    }

    /// Source: `createIsNull`.
    pub(super) fn equal_null(self) -> Result<Self, Refusal> {
        Self::binary(self, Self::constant(Constant::Null), Node::Equal)
    }

    /// Source: `createGreaterThan` and its like.
    pub(super) fn compared(self, comparison: Comparison, right: Self) -> Result<Self, Refusal> {
        check_comparable([&self, &right])?;
        Self::binary(self, right, |left, right| Node::Compare(comparison, left, right))
    }

    /// Source: `createBetween`.
    pub(super) fn between(self, low: Self, high: Self) -> Result<Self, Refusal> {
        if let (Node::Constant(lowest), Node::Constant(highest)) = (&low.node, &high.node) {
            let (lowest, highest) = (Value::of(lowest), Value::of(highest));
            if !matches!(compare(highest, lowest), Ok(ordering) if ordering.is_ge()) {
                return Err("the first value of BETWEEN has to be less than or equal to the second".into());
            }
        }
        self.between_or_not(low, high, false)
    }

    /// Source: `createNotBetween`.
    pub(super) fn not_between(self, low: Self, high: Self) -> Result<Self, Refusal> {
        self.between_or_not(low, high, true)
    }

    /// 4.9.3 makes two comparisons of it; the value stands once here, since each level of nesting would double it.
    fn between_or_not(self, low: Self, high: Self, not: bool) -> Result<Self, Refusal> {
        check_comparable([&self, &low, &high])?;
        let depth = 2 + self.depth.max(low.depth).max(high.depth);
        let [value, low, high] = [self, low, high].map(Box::new);
        Self { node: Node::Between { value, low, high, not }, depth }.checked()
    }

    /// Source: `createInFilter`.
    pub(super) fn among(self, mut texts: Vec<String>, not: bool) -> Result<Self, Refusal> {
        let Node::Property(property) = self.node else {
            return Err("expected a property before IN".into());
        };
        texts.sort_unstable();
        Ok(Self { node: Node::In { property, texts, not }, depth: 1 })
    }
}

fn check_comparable<const N: usize>(operands: [&Expression; N]) -> Result<(), Refusal> {
    for operand in operands {
        let is_number = matches!(
            operand.node,
            Node::Constant(Constant::Int(_) | Constant::Long(_) | Constant::Double(_))
        );
        if !is_number && (operand.is_boolean() || matches!(operand.node, Node::Constant(_))) {
            return Err("only numbers and properties are greater or less".into());
        }
    }
    Ok(())
}
