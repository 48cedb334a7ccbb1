//! The words of an expression. Source: `SelectorParser.jj`.
//!
//! Of several words that begin at a place the longest counts. Between words are white space, `/* */`
//! and `--` up to the end of a line that has one.

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    /// Digits, without the `L` that may follow them.
    Decimal(&'a str),
    Float(&'a str),
    /// Text without its quotes.
    Text(String),
    /// A property's name.
    Name(&'a str),
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Open,
    Close,
    Comma,
    Plus,
    Minus,
    End,
}

/// Why an expression is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte at which it shows.
    pub(super) at: usize,
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

/// A word and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) token: Token<'a>,
    pub(super) at: usize,
    /// The byte behind it.
    pub(super) end: usize,
}

/// Where the last line ends that has an end; 0 where none has.
pub(super) fn lines_end(text: &str) -> usize {
    text.rfind(['\n', '\r']).map_or(0, |end| end + 1)
}

/// The first word from a byte on, in a text of which [`lines_end`] is known.
pub(super) fn word(text: &str, from: usize, lines_end: usize) -> Result<Word<'_>, Fault> {
    let at = from + blank_size(text.get(from..).unwrap_or_default(), lines_end.saturating_sub(from));
    let rest = text.get(at..).unwrap_or_default();
    let found = |token, size: usize| Ok(Word { token, at, end: at + size });
    let bytes = rest.as_bytes();
    let second = bytes.get(1).copied();
    match bytes.first().copied() {
        None => found(Token::End, 0),
        Some(b'=') => found(Token::Equal, 1),
        Some(b'<') if second == Some(b'>') => found(Token::NotEqual, 2),
        Some(b'<') if second == Some(b'=') => found(Token::LessEqual, 2),
        Some(b'<') => found(Token::Less, 1),
        Some(b'>') if second == Some(b'=') => found(Token::GreaterEqual, 2),
        Some(b'>') => found(Token::Greater, 1),
        Some(b'(') => found(Token::Open, 1),
        Some(b')') => found(Token::Close, 1),
        Some(b',') => found(Token::Comma, 1),
        Some(b'+') => found(Token::Plus, 1),
        Some(b'-') => found(Token::Minus, 1),
        Some(b'\'') => match text_size(rest) {
            Some(size) => {
                let inner = rest.get(1..size - 1).unwrap_or_default();
                found(Token::Text(inner.replace("''", "'")), size)
            }
            None => Err(Fault::new(at, "expected a closing quote")),
        },
        Some(b'0'..=b'9' | b'.') => number(rest).map_or_else(
            || Err(Fault::new(at, "expected digits behind the point")),
            |(token, size)| found(token, size),
        ),
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$') => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            let size = bytes.iter().take_while(|byte| is_part(byte)).count();
            found(keyword_or_name(rest.get(..size).unwrap_or_default()), size)
        }
        Some(_) => {
            let character = rest.chars().next().unwrap_or_default();
            Err(Fault::new(at, format!("{character:?} begins no word of an expression")))
        }
    }
}

fn keyword_or_name(name: &str) -> Token<'_> {
    match name.to_ascii_uppercase().as_str() {
        "NOT" => Token::Not,
        "AND" => Token::And,
        "OR" => Token::Or,
        "BETWEEN" => Token::Between,
        "IN" => Token::In,
        "TRUE" => Token::True,
        "FALSE" => Token::False,
        "NULL" => Token::Null,
        "IS" => Token::Is,
        _ => Token::Name(name),
    }
}

/// Bytes of white space and comments at the beginning.
fn blank_size(text: &str, lines_end: usize) -> usize {
    let mut size = 0;
    loop {
        let rest = text.get(size..).unwrap_or_default();
        let blank = match rest.as_bytes() {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0C, ..] => Some(1),
            // Without the end of its line it is no comment but two signs, which are not looked behind again and again.
            [b'-', b'-', ..] if size < lines_end => rest.find(['\n', '\r']).map(|end| end + 1),
            [b'/', b'*', ..] => rest.get(2..).and_then(|inner| inner.find("*/")).map(|end| end + 4),
            _ => None,
        };
        match blank {
            Some(found) => size += found,
            None => return size,
        }
    }
}

/// Bytes of a text with its quotes; a quote in it is doubled.
fn text_size(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        at += memchr::memchr(b'\'', bytes.get(at..)?)?;
        if bytes.get(at + 1) != Some(&b'\'') {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn exponent(bytes: &[u8]) -> usize {
    let Some(b'e' | b'E') = bytes.first() else { return 0 };
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    match digits(bytes.get(1 + sign..).unwrap_or_default()) {
        0 => 0,
        count => 1 + sign + count,
    }
}

fn number(text: &str) -> Option<(Token<'_>, usize)> {
    let bytes = text.as_bytes();
    let whole = digits(bytes);
    let behind = bytes.get(whole..).unwrap_or_default();
    let float = if behind.first() == Some(&b'.') {
        let fraction = digits(behind.get(1..).unwrap_or_default());
        if whole + fraction == 0 {
            return None;
        }
        let size = whole + 1 + fraction;
        size + exponent(bytes.get(size..).unwrap_or_default())
    } else {
        match exponent(behind) {
            0 => 0,
            size => whole + size,
        }
    };
    if float > 0 {
        return Some((Token::Float(text.get(..float)?), float));
    }
    // A number does not go on behind a zero that it begins with.
    if bytes.first() == Some(&b'0') {
        return Some((Token::Decimal(text.get(..1)?), 1));
    }
    let long = usize::from(matches!(behind.first(), Some(b'l' | b'L')));
    Some((Token::Decimal(text.get(..whole)?), whole + long))
}
