//! Hello, proof message and verdict. Protocol, "Connection".

use crate::error::HelloFault;
use crate::id::Slot;
use crate::limits::{FINGERPRINT_SIZE_BYTES, HELLO_SIZE_BYTES, NONCE_SIZE_BYTES, SLOT_MAX};
use crate::reader::Reader;

/// First bytes of every server hello.
pub(crate) const MAGIC: [u8; 8] = *b"TCKCLI3\0";
/// The version this codec speaks.
pub const WIRE_VERSION: u16 = 3;
/// "No slot": the self slot in single mode, an unknown leader in replies.
pub const NO_SLOT: u8 = 255;
/// First bytes of the message under the client proof.
pub const PROOF_DOMAIN: [u8; 16] = *b"TCK/CLIENT/AUTH3";
/// Size of the message under the client proof.
pub const PROOF_MESSAGE_SIZE: usize = 16 + 2 + 1 + FINGERPRINT_SIZE_BYTES + 1 + NONCE_SIZE_BYTES;
/// Result byte: the proof was accepted and frames follow.
pub const VERDICT_ACCEPTED: u8 = 1;
/// Result byte: the proof was refused; the server closes.
pub const VERDICT_REFUSED: u8 = 0;

/// How the server runs, and as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One node of a cluster.
    Cluster {
        /// The node that says hello.
        self_slot: Slot,
    },
    /// A server by itself.
    Single,
}

impl Mode {
    const fn byte(self) -> u8 {
        match self {
            Self::Single => 0,
            Self::Cluster { .. } => 1,
        }
    }

    const fn slot_byte(self) -> u8 {
        match self {
            Self::Single => NO_SLOT,
            Self::Cluster { self_slot } => self_slot.get(),
        }
    }
}

/// The first bytes on a connection, from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Mode and self slot.
    pub mode: Mode,
    /// Fresh from the OS random source for each connection.
    pub nonce: [u8; NONCE_SIZE_BYTES],
}

impl Hello {
    /// Wire form.
    pub fn encode(&self) -> [u8; HELLO_SIZE_BYTES] {
        let mut bytes = [0; HELLO_SIZE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&WIRE_VERSION.to_be_bytes());
        bytes[10] = self.mode.byte();
        bytes[11] = self.mode.slot_byte();
        bytes[12..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// The first rule it breaks, in wire order.
    pub fn decode(bytes: &[u8; HELLO_SIZE_BYTES]) -> Result<Self, HelloFault> {
        let mut reader = Reader::new(bytes);
        if reader.array() != Some(&MAGIC) {
            return Err(HelloFault::Magic);
        }
        if reader.array() != Some(&WIRE_VERSION.to_be_bytes()) {
            return Err(HelloFault::Version);
        }
        let (mode, slot) = (reader.u8(), reader.u8());
        let mode = match (mode, slot) {
            (Some(0), Some(NO_SLOT)) => Mode::Single,
            (Some(1), Some(slot @ 0..=SLOT_MAX)) => {
                Mode::Cluster { self_slot: Slot::new(slot).ok_or(HelloFault::Slot)? }
            }
            (Some(0 | 1), _) => return Err(HelloFault::Slot),
            _ => return Err(HelloFault::Mode),
        };
        let nonce = *reader.array().ok_or(HelloFault::Magic)?;
        Ok(Self { mode, nonce })
    }
}

/// The message whose HMAC-SHA-256 under the client token is the proof.
pub fn proof_message(
    hello: &Hello,
    fingerprint: &[u8; FINGERPRINT_SIZE_BYTES],
) -> [u8; PROOF_MESSAGE_SIZE] {
    let mut message = [0; PROOF_MESSAGE_SIZE];
    message[..16].copy_from_slice(&PROOF_DOMAIN);
    message[16..18].copy_from_slice(&WIRE_VERSION.to_be_bytes());
    message[18] = hello.mode.byte();
    message[19..51].copy_from_slice(fingerprint);
    message[51] = hello.mode.slot_byte();
    message[52..].copy_from_slice(&hello.nonce);
    message
}
