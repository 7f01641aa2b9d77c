//! The proof that nodes of a cluster give each other. Cluster protocol, "Handshake".

use crate::error::{TokenError, TokenFault};
use crate::limits::{TOKEN_SIZE_BYTES_MAX, TOKEN_SIZE_BYTES_MIN};
use crate::token_set::{check_line_breaks, parse_lines, read_lines};
use std::fmt;
use std::path::Path;

/// Size of a proof: one BLAKE3 output.
pub const PEER_PROOF_SIZE_BYTES: usize = 32;
/// What the key is derived for, so that a token used elsewhere too proves nothing there.
const KEY_CONTEXT: &str = "ticketing peer token v1";

/// Who proves; part of what is proved, so that a proof cannot be sent back to its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerSide {
    /// Accepted the connection.
    Acceptor,
    /// Opened the connection.
    Dialer,
}

/// The peer tokens in force, the newest first. Any of them is accepted.
#[derive(Clone)]
pub struct PeerTokens {
    keys: Vec<[u8; 32]>,
}

impl PeerTokens {
    /// One token from a variable or an argument; `name` is what error messages call it.
    ///
    /// # Errors
    /// A token outside the size bounds, or with a line break inside.
    pub fn from_value(name: &str, value: &str) -> Result<Self, TokenError> {
        derive_key(value.as_bytes())
            .map(|key| Self { keys: vec![key] })
            .map_err(|fault| TokenError::Value { name: name.to_owned(), fault })
    }

    /// The tokens of a file, one per line, the newest first.
    ///
    /// # Errors
    /// A file that cannot be read, is empty or too large, or a line that is no token.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let content = read_lines(path)?;
        Ok(Self { keys: parse_lines(path, &content, derive_key)? })
    }

    /// How many there are; at least one.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The proof over both hellos: keyed BLAKE3 under one of the tokens.
    ///
    /// # Panics
    /// If `token` is not below [`count`](Self::count).
    pub fn prove(
        &self,
        token: usize,
        side: PeerSide,
        hellos: &[u8],
    ) -> [u8; PEER_PROOF_SIZE_BYTES] {
        *tag(&self.keys[token], side, hellos).as_bytes()
    }

    /// With which of the tokens that side made the proof, if any, in time that does not depend on
    /// where they differ.
    pub fn verify(
        &self,
        side: PeerSide,
        hellos: &[u8],
        proof: &[u8; PEER_PROOF_SIZE_BYTES],
    ) -> Option<usize> {
        // Comparing two `Hash` values takes constant time.
        let proof = blake3::Hash::from_bytes(*proof);
        self.keys.iter().enumerate().fold(None, |proved, (token, key)| {
            if tag(key, side, hellos) == proof { Some(token) } else { proved }
        })
    }
}

fn tag(key: &[u8; 32], side: PeerSide, hellos: &[u8]) -> blake3::Hash {
    let side = match side {
        PeerSide::Acceptor => b'A',
        PeerSide::Dialer => b'D',
    };
    blake3::Hasher::new_keyed(key).update(&[side]).update(hellos).finalize()
}

fn derive_key(token: &[u8]) -> Result<[u8; 32], TokenFault> {
    check_line_breaks(token)?;
    match token.len() {
        0 => Err(TokenFault::Empty),
        size if size < TOKEN_SIZE_BYTES_MIN => Err(TokenFault::TooShort { size }),
        size if size > TOKEN_SIZE_BYTES_MAX => Err(TokenFault::TooLong),
        _ => Ok(blake3::derive_key(KEY_CONTEXT, token)),
    }
}

impl fmt::Debug for PeerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerTokens(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> PeerTokens {
        PeerTokens::from_value("TICKETING_PEER_TOKEN", text).expect("a valid token")
    }

    #[test]
    fn a_proof_is_for_one_side_and_one_pair_of_hellos() {
        let tokens = tokens("a peer token of enough bytes");
        let proof = tokens.prove(0, PeerSide::Dialer, b"hellos");
        assert_eq!(tokens.verify(PeerSide::Dialer, b"hellos", &proof), Some(0));
        assert_eq!(tokens.verify(PeerSide::Acceptor, b"hellos", &proof), None);
        assert_eq!(tokens.verify(PeerSide::Dialer, b"hellot", &proof), None);
    }

    #[test]
    fn another_token_proves_nothing() {
        let (ours, theirs) = (tokens("our token, 16 bytes"), tokens("their token, 16 bytes"));
        let proof = theirs.prove(0, PeerSide::Dialer, b"hellos");
        assert_eq!(ours.verify(PeerSide::Dialer, b"hellos", &proof), None);
        let both = PeerTokens { keys: [ours.keys, theirs.keys].concat() };
        assert_eq!(both.verify(PeerSide::Dialer, b"hellos", &proof), Some(1));
        assert_eq!(both.prove(1, PeerSide::Dialer, b"hellos"), proof);
    }

    #[test]
    fn bad_tokens_are_named() {
        let error = PeerTokens::from_value("TICKETING_PEER_TOKEN", "short").expect_err("too short");
        assert!(error.to_string().starts_with("TICKETING_PEER_TOKEN: "), "{error}");
        assert_eq!(format!("{:?}", tokens("a token of 16 bytes")), "PeerTokens(secret)");
    }
}
