//! The grammar of an expression. Source: `SelectorParser.jj`.
//!
//! ```text
//! or          and ("OR" and)*
//! and         equality ("AND" equality)*
//! equality    comparison (("=" | "<>") comparison | "IS" "NOT"? "NULL")*
//! comparison  unary ((">" | ">=" | "<" | "<=") unary
//!                   | "NOT"? "BETWEEN" unary "AND" unary
//!                   | "NOT"? "IN" "(" text ("," text)* ")")*
//! unary       ("+" | "-" | "NOT") unary | primary
//! primary     number | text | "TRUE" | "FALSE" | "NULL" | name | "(" or ")"
//! ```
//!
//! What waits for its right side lies on a stack of the parser's own: a thread's stack may be small, and how deep a text
//! nests is its writer's choice.

use super::expression::{Comparison, Constant, Expression, MAX_DEPTH, Refusal};
use super::token::{Fault, Token, Word, lines_end, word};

/// Reads an expression. With `compat` what follows it is passed over, as long as it begins with a word.
pub(super) fn parse(text: &str, compat: bool) -> Result<Expression, Fault> {
    let lines_end = lines_end(text);
    let next = word(text, 0, lines_end)?;
    let mut parser =
        Parser { text, lines_end, next, waiting: Vec::new(), depth: 0, is_behind_is_null: false };
    let expression = parser.expression()?.into_boolean().map_err(|reason| Fault::new(0, reason))?;
    if parser.next.token != Token::End && !compat {
        return Err(parser.expected("AND, OR or the end"));
    }
    Ok(expression)
}

/// What has its left side and waits for its right one.
enum Waiting {
    /// An open parenthesis.
    Group,
    Plus,
    Minus,
    Not,
    Compared(Expression, Comparison),
    /// The value of a BETWEEN, before its first bound.
    Low {
        value: Expression,
        not: bool,
    },
    High {
        value: Expression,
        low: Expression,
        not: bool,
    },
    Equal {
        left: Expression,
        not: bool,
    },
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Waiting {
    /// Whether its right side has come to its end, as what follows binds no tighter.
    fn ends_before(&self, next: Binding) -> bool {
        match self {
            Self::Group => next == Binding::None,
            Self::Any(_) => next < Binding::Or,
            Self::All(_) => next < Binding::And,
            Self::Equal { .. } => next <= Binding::Equality,
            _ => true,
        }
    }
}

/// How tightly a word behind an operand binds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    /// Not at all: it ends the expression.
    None,
    Or,
    And,
    Equality,
    Comparison,
}

impl Binding {
    const fn of(token: &Token<'_>) -> Self {
        use Token::{Between, Equal, Greater, GreaterEqual, In, Is, Less, LessEqual, Not, NotEqual};
        match token {
            Token::Or => Self::Or,
            Token::And => Self::And,
            Equal | NotEqual | Is => Self::Equality,
            Greater | GreaterEqual | Less | LessEqual | Not | Between | In => Self::Comparison,
            _ => Self::None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    lines_end: usize,
    next: Word<'a>,
    /// From the outside in.
    waiting: Vec<Waiting>,
    /// How many of them nest: parentheses, signs and NOT.
    depth: usize,
    /// No comparison binds what asked for NULL.
    is_behind_is_null: bool,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<Token<'a>, Fault> {
        let following = word(self.text, self.next.end, self.lines_end)?;
        Ok(std::mem::replace(&mut self.next, following).token)
    }

    fn expected(&self, what: &str) -> Fault {
        Fault::new(self.next.at, format!("expected {what}"))
    }

    fn take(&mut self, token: &Token<'a>, shown: &str) -> Result<(), Fault> {
        if self.next.token == *token { self.advance().map(|_| ()) } else { Err(self.expected(shown)) }
    }

    /// Whether the word was the next one, which is passed.
    fn took(&mut self, token: &Token<'a>) -> Result<bool, Fault> {
        let is_next = self.next.token == *token;
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn at(&self) -> impl Fn(Refusal) -> Fault + use<> {
        let at = self.next.at;
        move |reason| Fault::new(at, reason)
    }

    fn expression(&mut self) -> Result<Expression, Fault> {
        loop {
            self.prefixes()?;
            let operand = self.primary()?;
            if let Some(whole) = self.behind(operand)? {
                return Ok(whole);
            }
        }
    }

    /// Passes what may stand before an operand.
    fn prefixes(&mut self) -> Result<(), Fault> {
        loop {
            if self.depth == MAX_DEPTH {
                return Err(Fault::new(self.next.at, format!("nested more than {MAX_DEPTH} deep")));
            }
            self.depth += 1;
            self.waiting.push(match self.next.token {
                Token::Open => Waiting::Group,
                Token::Plus => Waiting::Plus,
                Token::Minus => Waiting::Minus,
                Token::Not => Waiting::Not,
                _ => {
                    self.depth -= 1;
                    return Ok(());
                }
            });
            self.advance()?;
        }
    }

    fn primary(&mut self) -> Result<Expression, Fault> {
        let at = self.next.at;
        let refused = self.at();
        self.is_behind_is_null = false;
        Ok(match self.advance()? {
            Token::Decimal(digits) => Expression::decimal(digits).map_err(refused)?,
            Token::Float(text) => Expression::float(text).map_err(refused)?,
            Token::Text(text) => Expression::constant(Constant::Text(text)),
            Token::True => Expression::constant(Constant::Bool(true)),
            Token::False => Expression::constant(Constant::Bool(false)),
            Token::Null => Expression::constant(Constant::Null),
            Token::Name(name) => Expression::property(name),
            _ => return Err(Fault::new(at, "expected a property, a value or (")),
        })
    }

    /// Goes on behind an operand: to the end, with the whole expression, or to where another operand has to stand.
    fn behind(&mut self, operand: Expression) -> Result<Option<Expression>, Fault> {
        let mut left = operand;
        loop {
            let binding = self.binding();
            let gone_on = match (self.waiting.pop_if(|waiting| waiting.ends_before(binding)), binding) {
                (Some(ended), _) => self.joined(ended, left)?,
                (None, Binding::None) => return Ok(Some(left)),
                (None, Binding::Or | Binding::And) => self.part(left)?,
                (None, Binding::Equality) => self.equality(left)?,
                (None, Binding::Comparison) => self.comparison(left)?,
            };
            match gone_on {
                Some(longer) => left = longer,
                None => return Ok(None),
            }
        }
    }

    fn binding(&self) -> Binding {
        match Binding::of(&self.next.token) {
            Binding::Comparison if self.is_behind_is_null => Binding::None,
            binding => binding,
        }
    }

    /// What waited, with its right side; nothing where it waits for more.
    fn joined(&mut self, ended: Waiting, right: Expression) -> Result<Option<Expression>, Fault> {
        if matches!(ended, Waiting::Group | Waiting::Plus | Waiting::Minus | Waiting::Not) {
            self.depth -= 1;
        }
        match ended {
            Waiting::Group => {
                self.take(&Token::Close, ")")?;
                self.is_behind_is_null = false;
                Ok(right)
            }
            Waiting::Plus => Ok(right),
            Waiting::Minus => right.negate(),
            Waiting::Not => right.not(),
            Waiting::Compared(left, comparison) => left.compared(comparison, right),
            Waiting::Low { value, not } => {
                self.take(&Token::And, "AND")?;
                self.waiting.push(Waiting::High { value, low: right, not });
                return Ok(None);
            }
            Waiting::High { value, low, not: false } => value.between(low, right),
            Waiting::High { value, low, not: true } => value.not_between(low, right),
            Waiting::Equal { left, not: false } => left.equal(right),
            Waiting::Equal { left, not: true } => left.equal(right).and_then(Expression::not),
            Waiting::All(parts) => with_last(parts, right).and_then(Expression::all_of),
            Waiting::Any(parts) => with_last(parts, right).and_then(Expression::any_of),
        }
        .map(Some)
        .map_err(self.at())
    }

    /// A part of what AND or OR joins, which is the next word.
    fn part(&mut self, part: Expression) -> Result<Option<Expression>, Fault> {
        let part = part.into_boolean().map_err(self.at())?;
        match (self.advance()?, self.waiting.last_mut()) {
            (Token::And, Some(Waiting::All(parts))) | (Token::Or, Some(Waiting::Any(parts))) => {
                parts.push(part);
            }
            (Token::And, _) => self.waiting.push(Waiting::All(vec![part])),
            _ => self.waiting.push(Waiting::Any(vec![part])),
        }
        Ok(None)
    }

    fn equality(&mut self, left: Expression) -> Result<Option<Expression>, Fault> {
        let token = self.advance()?;
        if token != Token::Is {
            self.waiting.push(Waiting::Equal { left, not: token == Token::NotEqual });
            return Ok(None);
        }
        let not = self.took(&Token::Not)?;
        self.take(&Token::Null, "NULL")?;
        self.is_behind_is_null = true;
        let is_null = left.equal_null();
        if not { is_null.and_then(Expression::not) } else { is_null }.map(Some).map_err(self.at())
    }

    fn comparison(&mut self, left: Expression) -> Result<Option<Expression>, Fault> {
        let comparison = match self.next.token {
            Token::Greater => Comparison::Greater,
            Token::GreaterEqual => Comparison::GreaterEqual,
            Token::Less => Comparison::Less,
            Token::LessEqual => Comparison::LessEqual,
            _ => return self.between_or_in(left),
        };
        self.advance()?;
        self.waiting.push(Waiting::Compared(left, comparison));
        Ok(None)
    }

    fn between_or_in(&mut self, left: Expression) -> Result<Option<Expression>, Fault> {
        let not = self.took(&Token::Not)?;
        if self.took(&Token::Between)? {
            self.waiting.push(Waiting::Low { value: left, not });
            return Ok(None);
        }
        self.take(&Token::In, "BETWEEN or IN")?;
        let texts = self.texts()?;
        left.among(texts, not).map(Some).map_err(self.at())
    }

    fn texts(&mut self) -> Result<Vec<String>, Fault> {
        self.take(&Token::Open, "(")?;
        let mut texts = Vec::new();
        loop {
            match self.advance()? {
                Token::Text(text) => texts.push(text),
                _ => return Err(self.expected("a text in quotes before this")),
            }
            if self.next.token != Token::Comma {
                break;
            }
            self.advance()?;
        }
        self.take(&Token::Close, ", or )")?;
        Ok(texts)
    }
}

fn with_last(mut parts: Vec<Expression>, last: Expression) -> Result<Vec<Expression>, Refusal> {
    parts.push(last.into_boolean()?);
    Ok(parts)
}
