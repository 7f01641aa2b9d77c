//! One token, and the proof that somebody knows it.

use crate::error::TokenFault;
use crate::limits::{TOKEN_SIZE_BYTES_MAX, TOKEN_SIZE_BYTES_MIN};
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use std::fmt;

/// Size of a proof: one SHA-256 output.
pub const PROOF_SIZE_BYTES: usize = 32;

/// A client token, ready for use. Only the keyed hash state is kept, never the token's bytes.
#[derive(Clone)]
pub struct ClientToken {
    key: Key,
}

impl ClientToken {
    /// The empty token of a server without authentication. Only for loopback addresses.
    pub fn none() -> Self {
        Self { key: Key::new(HMAC_SHA256, &[]) }
    }

    /// A token of [`TOKEN_SIZE_BYTES_MIN`] to [`TOKEN_SIZE_BYTES_MAX`] bytes, taken as they are.
    ///
    /// # Errors
    /// The [`TokenFault`] of a size outside that range.
    pub fn new(bytes: &[u8]) -> Result<Self, TokenFault> {
        match bytes.len() {
            0 => Err(TokenFault::Empty),
            size if size < TOKEN_SIZE_BYTES_MIN => Err(TokenFault::TooShort { size }),
            size if size > TOKEN_SIZE_BYTES_MAX => Err(TokenFault::TooLong),
            _ => Ok(Self { key: Key::new(HMAC_SHA256, bytes) }),
        }
    }

    /// The client's proof over the handshake message: its HMAC-SHA-256 under this token.
    pub fn prove(&self, message: &[u8]) -> [u8; PROOF_SIZE_BYTES] {
        let tag = sign(&self.key, message);
        *tag.as_ref().first_chunk().expect("HMAC-SHA-256 gives 32 bytes")
    }

    /// Whether `proof` was made with this token over this message, in time that does not depend
    /// on where they differ.
    pub(crate) fn accepts(&self, message: &[u8], proof: &[u8; PROOF_SIZE_BYTES]) -> bool {
        verify(&self.key, message, proof).is_ok()
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
            .collect()
    }

    /// Cases 1, 3, 4 and 6 of RFC 4231, whose keys are long enough for a token.
    #[test]
    fn proofs_are_the_published_answers() {
        let counting: Vec<u8> = (1..=25).collect();
        let cases: [(&[u8], &[u8], &str); 4] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                &counting,
                &[0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (token, message, proof) in cases {
            let token = ClientToken::new(token).expect("long enough");
            assert_eq!(token.prove(message).as_slice(), unhex(proof));
        }
    }

    #[test]
    fn the_empty_token_is_an_empty_key() {
        let expected = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
        assert_eq!(ClientToken::none().prove(b"").as_slice(), unhex(expected));
    }

    #[test]
    fn sizes_are_checked_at_both_edges() {
        assert_eq!(ClientToken::new(b"").err(), Some(TokenFault::Empty));
        assert_eq!(ClientToken::new(&[1; 15]).err(), Some(TokenFault::TooShort { size: 15 }));
        assert!(ClientToken::new(&[1; 16]).is_ok());
        assert!(ClientToken::new(&[1; 4096]).is_ok());
        assert_eq!(ClientToken::new(&[1; 4097]).err(), Some(TokenFault::TooLong));
    }

    #[test]
    fn debug_shows_nothing_of_the_token() {
        let token = ClientToken::new(b"hunter2-hunter2-hunter2").expect("long enough");
        assert_eq!(format!("{token:?}"), "ClientToken(secret)");
    }
}
