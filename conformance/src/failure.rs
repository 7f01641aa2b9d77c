//! What a check found wrong: what had to happen, what happened instead.

use std::fmt;

/// One broken expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What had to happen.
    pub expected: String,
    /// What happened.
    pub seen: String,
}

/// Result of a check.
pub type Check<T = ()> = Result<T, Failure>;

/// The failure itself.
pub fn fail<T>(expected: impl Into<String>, seen: impl Into<String>) -> Check<T> {
    Err(Failure { expected: expected.into(), seen: seen.into() })
}

/// Passes when both are equal.
///
/// # Errors
/// Names `what` with both values.
pub fn same<T: PartialEq + fmt::Display>(what: &str, expected: T, seen: T) -> Check {
    if expected == seen {
        return Ok(());
    }
    fail(format!("{what}: {expected}"), seen.to_string())
}

/// Passes when the bytes are equal.
///
/// # Errors
/// Names `what` with both in hex.
pub fn same_bytes(what: &str, expected: &[u8], seen: &[u8]) -> Check {
    same(what, hex(expected), hex(seen))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a hex string; `None` when it is none.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; seen {}", self.expected, self.seen)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self { expected: "working socket".into(), seen: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        assert_eq!(unhex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
    }
}
