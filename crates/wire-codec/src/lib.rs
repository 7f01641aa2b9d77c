//! Client wire protocol, version 3: bytes to borrowed typed frames and back.
//!
//! The codec borrows what it decodes, allocates nothing and does no I/O. Decoding is total: any
//! input gives a frame, a request for more bytes, or a named fault, and never a panic. The law is
//! the handbook's *Client protocol* page; comments name its sections.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod error;
mod handshake;
mod head;
mod id;
mod key;
pub mod limits;
mod reader;
mod reply;
mod request;

pub use error::{ErrorCode, HelloFault, ReplyFault, RequestFault};
pub use handshake::{Hello, Mode, NO_SLOT, PROOF_DOMAIN, PROOF_MESSAGE_SIZE, VERDICT_ACCEPTED};
pub use handshake::{VERDICT_REFUSED, WIRE_VERSION, proof_message};
pub use id::{RequestId, Slot, Token};
pub use key::{check_key, check_key_set};
pub use reply::{EncodedReply, Reply, ReplyRules, decode_reply};
pub use request::{Keys, Operation, RequestFrame, RequestKind, SetKeys, decode_request};
pub use request::{encode_acquire, encode_acquire_set, encode_release, encode_release_set};

/// What a decoder found at the start of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// One whole frame.
    Complete {
        /// The frame.
        value: T,
        /// Its size in bytes, header included; the next frame starts there.
        size: usize,
    },
    /// A frame has begun and is valid so far; more bytes are needed.
    Incomplete,
}
