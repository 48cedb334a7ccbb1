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

use super::expression::{Comparison, Constant, Expression, MAX_DEPTH, Refusal};
use super::token::{Fault, Token, Word, lines_end, word};

/// Reads an expression. With `compat` what follows it is passed over, as long as it begins with a word.
pub(super) fn parse(text: &str, compat: bool) -> Result<Expression, Fault> {
    let lines_end = lines_end(text);
    let mut parser = Parser { text, lines_end, next: word(text, 0, lines_end)?, depth: 0 };
    let expression = parser.or()?.into_boolean().map_err(|reason| Fault::new(0, reason))?;
    if parser.next.token != Token::End && !compat {
        return Err(parser.expected("AND, OR or the end"));
    }
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    lines_end: usize,
    next: Word<'a>,
    depth: usize,
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

    fn at(&self) -> impl Fn(Refusal) -> Fault + use<> {
        let at = self.next.at;
        move |reason| Fault::new(at, reason)
    }

    fn or(&mut self) -> Result<Expression, Fault> {
        self.several(&Token::Or, Self::and, Expression::any_of)
    }

    fn and(&mut self) -> Result<Expression, Fault> {
        self.several(&Token::And, Self::equality, Expression::all_of)
    }

    fn several(
        &mut self,
        between: &Token<'a>,
        part: impl Fn(&mut Self) -> Result<Expression, Fault>,
        join: impl Fn(Vec<Expression>) -> Result<Expression, Refusal>,
    ) -> Result<Expression, Fault> {
        let first = part(self)?;
        if self.next.token != *between {
            return Ok(first);
        }
        let mut parts = vec![first.into_boolean().map_err(self.at())?];
        while self.next.token == *between {
            self.advance()?;
            parts.push(part(self)?.into_boolean().map_err(self.at())?);
        }
        join(parts).map_err(self.at())
    }

    fn equality(&mut self) -> Result<Expression, Fault> {
        let mut left = self.comparison()?;
        loop {
            left = match self.next.token {
                Token::Equal => {
                    self.advance()?;
                    let right = self.comparison()?;
                    left.equal(right)
                }
                Token::NotEqual => {
                    self.advance()?;
                    let right = self.comparison()?;
                    left.equal(right).and_then(Expression::not)
                }
                Token::Is => {
                    self.advance()?;
                    let not = self.next.token == Token::Not;
                    if not {
                        self.advance()?;
                    }
                    self.take(&Token::Null, "NULL")?;
                    if not { left.equal_null().and_then(Expression::not) } else { left.equal_null() }
                }
                _ => return Ok(left),
            }
            .map_err(self.at())?;
        }
    }

    fn comparison(&mut self) -> Result<Expression, Fault> {
        let mut left = self.unary()?;
        loop {
            let comparison = match self.next.token {
                Token::Greater => Comparison::Greater,
                Token::GreaterEqual => Comparison::GreaterEqual,
                Token::Less => Comparison::Less,
                Token::LessEqual => Comparison::LessEqual,
                Token::Not | Token::Between | Token::In => {
                    left = self.between_or_in(left)?;
                    continue;
                }
                _ => return Ok(left),
            };
            self.advance()?;
            let right = self.unary()?;
            left = left.compared(comparison, right).map_err(self.at())?;
        }
    }

    fn between_or_in(&mut self, left: Expression) -> Result<Expression, Fault> {
        let not = self.next.token == Token::Not;
        if not {
            self.advance()?;
        }
        match self.next.token {
            Token::Between => {
                self.advance()?;
                let low = self.unary()?;
                self.take(&Token::And, "AND")?;
                let high = self.unary()?;
                if not { left.not_between(low, high) } else { left.between(low, high) }.map_err(self.at())
            }
            Token::In => {
                self.advance()?;
                let texts = self.texts()?;
                left.among(texts, not).map_err(self.at())
            }
            _ => Err(self.expected("BETWEEN or IN")),
        }
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

    fn unary(&mut self) -> Result<Expression, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::new(self.next.at, format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let expression = match self.next.token {
            Token::Plus => {
                self.advance()?;
                self.unary()?
            }
            Token::Minus => {
                self.advance()?;
                self.unary()?.negate().map_err(self.at())?
            }
            Token::Not => {
                self.advance()?;
                self.unary()?.not().map_err(self.at())?
            }
            _ => self.primary()?,
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn primary(&mut self) -> Result<Expression, Fault> {
        let refused = self.at();
        let expected = self.expected("a property, a value or (");
        Ok(match self.advance()? {
            Token::Decimal(digits) => Expression::decimal(digits).map_err(refused)?,
            Token::Float(text) => Expression::float(text).map_err(refused)?,
            Token::Text(text) => Expression::constant(Constant::Text(text)),
            Token::True => Expression::constant(Constant::Bool(true)),
            Token::False => Expression::constant(Constant::Bool(false)),
            Token::Null => Expression::constant(Constant::Null),
            Token::Name(name) => Expression::property(name),
            Token::Open => {
                let inner = self.or()?;
                self.take(&Token::Close, ")")?;
                inner
            }
            _ => return Err(expected),
        })
    }
}
