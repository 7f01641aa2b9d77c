//! Why a token was not taken. No message ever contains token bytes.

use crate::limits::{TOKEN_COUNT_MAX, TOKEN_SIZE_BYTES_MAX, TOKEN_SIZE_BYTES_MIN};
use std::fmt;
use std::path::PathBuf;

/// Which rule a token breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFault {
    /// No bytes at all.
    Empty,
    /// A line break inside, or a carriage return at its end: a file could not carry it.
    LineBreak,
    /// More bytes than [`TOKEN_SIZE_BYTES_MAX`].
    TooLong,
    /// Fewer bytes than [`TOKEN_SIZE_BYTES_MIN`].
    TooShort {
        /// How many bytes it has.
        size: usize,
    },
}

/// Where a bad token came from, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// A line of a token file.
    FileLine {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// The rule it breaks.
        fault: TokenFault,
    },
    /// The token file holds nothing.
    FileEmpty {
        /// The file.
        path: PathBuf,
    },
    /// The token file has too many lines, or is larger than any valid one.
    FileTooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The token file cannot be read.
    FileUnreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// A variable or argument.
    Value {
        /// What the user calls it.
        name: String,
        /// The rule it breaks.
        fault: TokenFault,
    },
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the token is empty"),
            Self::LineBreak => write!(f, "the token contains a line break (LF or CR)"),
            Self::TooLong => write!(f, "the token has more than {TOKEN_SIZE_BYTES_MAX} bytes"),
            Self::TooShort { size } => {
                write!(f, "the token has {size} bytes, fewer than {TOKEN_SIZE_BYTES_MIN}")
            }
        }
    }
}

impl TokenFault {
    const fn remedy(self) -> &'static str {
        match self {
            Self::Empty => "give a token, or unset it to run without one on loopback",
            Self::LineBreak => "write one token without line breaks; end file lines with LF only",
            Self::TooLong => "use a shorter one: 32 random bytes in hex are plenty",
            Self::TooShort { .. } => "use a longer one, such as 32 random bytes in hex",
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileLine { path, line, fault: TokenFault::Empty } => {
                write!(f, "token file {}: line {line} is empty; remove it", path.display())
            }
            Self::FileLine { path, line, fault } => {
                let remedy = fault.remedy();
                write!(f, "token file {}: line {line}: {fault}; {remedy}", path.display())
            }
            Self::FileEmpty { path } => {
                write!(f, "token file {} is empty; write one token per line", path.display())
            }
            Self::FileTooLarge { path } => write!(
                f,
                "token file {} is too large; it may list {TOKEN_COUNT_MAX} tokens of up to \
                 {TOKEN_SIZE_BYTES_MAX} bytes, one per line",
                path.display()
            ),
            Self::FileUnreadable { path, reason } => write!(
                f,
                "token file {} cannot be read: {reason}; check the path and its permissions",
                path.display()
            ),
            Self::Value { name, fault } => write!(f, "{name}: {fault}; {}", fault.remedy()),
        }
    }
}

impl std::error::Error for TokenError {}

impl std::error::Error for TokenFault {}
