//! Fencing domains, and the fingerprint that names a cluster's.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;
use ticketing_wire_codec::limits::FINGERPRINT_SIZE_BYTES;

/// A cluster's identity: 32 bytes, written as 64 hexadecimal digits. The server prints it when it
/// starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_SIZE_BYTES]);

/// Where a fencing token counts. Tokens of two domains must never be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// The cluster with this identity.
    Cluster(Fingerprint),
    /// A server by itself.
    Single,
}

impl Fingerprint {
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_SIZE_BYTES] {
        &self.0
    }
}

impl From<[u8; FINGERPRINT_SIZE_BYTES]> for Fingerprint {
    fn from(bytes: [u8; FINGERPRINT_SIZE_BYTES]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    /// Reads 64 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::invalid(format!(
                "fingerprint {text:?}: it must be 64 hexadecimal digits, as the server prints it"
            ))
        };
        if text.len() != 2 * FINGERPRINT_SIZE_BYTES || !text.is_ascii() {
            return Err(invalid());
        }
        let mut bytes = [0; FINGERPRINT_SIZE_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16).ok_or_else(invalid);
            *byte = (value(digits[0])? << 4 | value(digits[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_and_printed_as_hex() {
        let text = "00ff4d4698ae53ed0123456789abcdef00ff4d4698ae53ed0123456789abcdef";
        let fingerprint: Fingerprint = text.parse().expect("64 digits");
        assert_eq!(fingerprint.as_bytes()[..3], [0x00, 0xff, 0x4d]);
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(fingerprint));
        for text in ["", &text[1..], &format!("{text}0"), &text.replace('4', "g")] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
        assert!("é".repeat(32).parse::<Fingerprint>().is_err());
    }
}
