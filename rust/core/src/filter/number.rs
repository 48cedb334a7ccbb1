//! Numbers as Java reads them from text. Source: `Integer.valueOf`, `Long.valueOf`, `Double.valueOf`.

/// Text as `Long.valueOf` reads it: an optional sign and digits, nothing around them.
pub(super) fn long(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok()
}

/// Text as `Integer.valueOf` reads it.
pub(super) fn int(text: &[u8]) -> Option<i32> {
    long(text).and_then(|value| i32::try_from(value).ok())
}

/// Text as `Double.valueOf` reads it: white space around it, a type suffix, `NaN` and `Infinity`.
/// Hexadecimal numbers count as none.
pub(super) fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(|character| character <= ' ');
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, text.get(1..)?),
        Some(b'+') => (1.0, text.get(1..)?),
        _ => (1.0, text),
    };
    match unsigned {
        "NaN" => return Some(f64::NAN),
        "Infinity" => return Some(sign * f64::INFINITY),
        _ => {}
    }
    let number = unsigned.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(unsigned);
    // What is left has to begin with a digit or a point: Rust reads more words than Java.
    let begins = matches!(number.as_bytes().first(), Some(b'0'..=b'9' | b'.'));
    if begins { number.parse().ok().map(|value: f64| sign * value) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{double, int, long};

    #[test]
    fn as_java_reads_them() {
        assert_eq!(long(b"+5"), Some(5));
        assert_eq!(long(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(int(b"2147483648"), None);
        for text in [&b" 5"[..], b"", b"-", b"5L", b"5.0", b"\xff"] {
            assert_eq!(long(text), None);
        }
        assert_eq!(double(b" 1.5e3D\n"), Some(1500.0));
        assert_eq!(double(b".5"), Some(0.5));
        assert_eq!(double(b"5."), Some(5.0));
        assert_eq!(double(b"-Infinity"), Some(f64::NEG_INFINITY));
        for text in [&b"inf"[..], b"nan", b"infinity", b".", b"", b"1e", b"--1", b"5ff", b"NaNf", b"+-1"] {
            assert_eq!(double(text), None, "{text:?}");
        }
    }
}
