//! The handshake between nodes, as bytes. Cluster protocol, "Handshake".

use std::fmt;

/// First bytes from the side that opened the connection.
const DIALER_MAGIC: [u8; 8] = *b"TCKPEER\0";
/// First bytes from the side that accepted it.
const ACCEPTOR_MAGIC: [u8; 8] = *b"TCKNODE\0";
/// The version of the peer protocol that this build speaks.
pub(crate) const PEER_VERSION: u16 = 1;
/// Size of a dialer's hello.
pub(crate) const DIALER_HELLO_SIZE_BYTES: usize = 8 + 2 + 1 + 1 + 1 + 8 + 32 + 32;
/// Size of an acceptor's hello.
pub(crate) const ACCEPTOR_HELLO_SIZE_BYTES: usize = 8 + 2 + 1 + 1 + 8 + 32;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Messages, from the dialer to the acceptor.
    Messages,
    /// One snapshot, from the dialer to the acceptor.
    Snapshot,
}

/// From the dialer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialerHello {
    pub(crate) purpose: Purpose,
    pub(crate) from_slot: u8,
    pub(crate) to_slot: u8,
    /// Drawn at the start of the process; tells one process of a slot from the next.
    pub(crate) incarnation: u64,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) nonce: [u8; 32],
}

/// From the acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptorHello {
    pub(crate) verdict: Verdict,
    pub(crate) slot: u8,
    pub(crate) incarnation: u64,
    pub(crate) nonce: [u8; 32],
}

/// Whether the acceptor goes on, and why not. Also its last byte, after the dialer's proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Identity,
    Slot,
    Token,
    Version,
}

impl Verdict {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Identity => 1,
            Self::Slot => 2,
            Self::Token => 3,
            Self::Version => 4,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Accepted),
            1 => Some(Self::Identity),
            2 => Some(Self::Slot),
            3 => Some(Self::Token),
            4 => Some(Self::Version),
            _ => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Identity => {
                "another cluster identity or number of slots (compare TICKETING_CLUSTER_ID and \
                 TICKETING_CLUSTER_SLOTS)"
            }
            Self::Slot => "another slot (compare TICKETING_SLOT and TICKETING_CLUSTER_SLOTS)",
            Self::Token => "wrong peer token (compare TICKETING_PEER_TOKEN)",
            Self::Version => {
                "another version of the peer protocol (upgrade one node after another)"
            }
        })
    }
}

/// A hello that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelloFault;

impl DialerHello {
    pub(crate) fn encode(&self) -> [u8; DIALER_HELLO_SIZE_BYTES] {
        let mut bytes = [0; DIALER_HELLO_SIZE_BYTES];
        bytes[..8].copy_from_slice(&DIALER_MAGIC);
        bytes[8..10].copy_from_slice(&PEER_VERSION.to_be_bytes());
        bytes[10] = match self.purpose {
            Purpose::Messages => 0,
            Purpose::Snapshot => 1,
        };
        bytes[11] = self.from_slot;
        bytes[12] = self.to_slot;
        bytes[13..21].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[21..53].copy_from_slice(&self.fingerprint);
        bytes[53..].copy_from_slice(&self.nonce);
        bytes
    }

    /// `Ok(Err(..))` is a hello that must be answered with that verdict.
    pub(crate) fn decode(
        bytes: &[u8; DIALER_HELLO_SIZE_BYTES],
    ) -> Result<Result<Self, Verdict>, HelloFault> {
        if bytes[..8] != DIALER_MAGIC {
            return Err(HelloFault);
        }
        if bytes[8..10] != PEER_VERSION.to_be_bytes() {
            return Ok(Err(Verdict::Version));
        }
        let purpose = match bytes[10] {
            0 => Purpose::Messages,
            1 => Purpose::Snapshot,
            _ => return Err(HelloFault),
        };
        Ok(Ok(Self {
            purpose,
            from_slot: bytes[11],
            to_slot: bytes[12],
            incarnation: u64::from_be_bytes(array(bytes, 13)),
            fingerprint: array(bytes, 21),
            nonce: array(bytes, 53),
        }))
    }
}

impl AcceptorHello {
    pub(crate) fn encode(&self) -> [u8; ACCEPTOR_HELLO_SIZE_BYTES] {
        let mut bytes = [0; ACCEPTOR_HELLO_SIZE_BYTES];
        bytes[..8].copy_from_slice(&ACCEPTOR_MAGIC);
        bytes[8..10].copy_from_slice(&PEER_VERSION.to_be_bytes());
        bytes[10] = self.verdict.byte();
        bytes[11] = self.slot;
        bytes[12..20].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[20..].copy_from_slice(&self.nonce);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; ACCEPTOR_HELLO_SIZE_BYTES]) -> Result<Self, HelloFault> {
        if bytes[..8] != ACCEPTOR_MAGIC {
            return Err(HelloFault);
        }
        // The version is only meaningful when the verdict is not about it.
        Ok(Self {
            verdict: Verdict::from_byte(bytes[10]).ok_or(HelloFault)?,
            slot: bytes[11],
            incarnation: u64::from_be_bytes(array(bytes, 12)),
            nonce: array(bytes, 20),
        })
    }
}

fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    *bytes[at..].first_chunk().expect("within the hello")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_round_trip() {
        let dialer = DialerHello {
            purpose: Purpose::Snapshot,
            from_slot: 2,
            to_slot: 1,
            incarnation: u64::MAX - 1,
            fingerprint: [3; 32],
            nonce: [4; 32],
        };
        assert_eq!(DialerHello::decode(&dialer.encode()), Ok(Ok(dialer)));
        let acceptor =
            AcceptorHello { verdict: Verdict::Slot, slot: 1, incarnation: 9, nonce: [5; 32] };
        assert_eq!(AcceptorHello::decode(&acceptor.encode()), Ok(acceptor));
    }

    #[test]
    fn another_version_is_answered_and_other_bytes_are_not() {
        let dialer = DialerHello {
            purpose: Purpose::Messages,
            from_slot: 0,
            to_slot: 1,
            incarnation: 1,
            fingerprint: [0; 32],
            nonce: [0; 32],
        };
        let mut bytes = dialer.encode();
        bytes[9] = 2;
        assert_eq!(DialerHello::decode(&bytes), Ok(Err(Verdict::Version)));
        bytes[0] = b'X';
        assert_eq!(DialerHello::decode(&bytes), Err(HelloFault));
        let mut purpose = dialer.encode();
        purpose[10] = 2;
        assert_eq!(DialerHello::decode(&purpose), Err(HelloFault));
    }

    #[test]
    fn every_verdict_has_its_byte() {
        for byte in 0..=5 {
            assert_eq!(Verdict::from_byte(byte).map(Verdict::byte), (byte < 5).then_some(byte));
        }
    }
}
