//! Reply frames. Protocol, "Reply frames".

use crate::Step;
use crate::error::{ErrorCode, ReplyFault};
use crate::handshake::NO_SLOT;
use crate::head::Head;
use crate::id::{RequestId, Slot, Token};
use crate::limits::{HEAD_SIZE_BYTES, REPLY_SIZE_BYTES_MAX};
use crate::reader::Reader;
use crate::request::RequestKind;

const ID_SIZE_BYTES: usize = 8;
const ID_TOKEN_SIZE_BYTES: usize = 16;
const ID_BYTE_SIZE_BYTES: usize = 9;
const SLOT_SIZE_BYTES: usize = 1;

/// A reply. All but [`Reply::Leader`] answer the request with their id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `A`: granted.
    Granted {
        /// The request answered.
        request_id: RequestId,
        /// The grant's fencing token.
        token: Token,
    },
    /// `S`: the whole set granted under one token.
    GrantedSet {
        /// The request answered.
        request_id: RequestId,
        /// The set's fencing token.
        token: Token,
    },
    /// `R`: released.
    Released {
        /// The request answered.
        request_id: RequestId,
    },
    /// `G`: set released.
    ReleasedSet {
        /// The request answered.
        request_id: RequestId,
    },
    /// `N`: that token does not hold that key.
    NotHeld {
        /// The request answered.
        request_id: RequestId,
    },
    /// `T`: turn did not come within wait; never granted later.
    TimedOut {
        /// The request answered.
        request_id: RequestId,
    },
    /// `B`: refused for capacity.
    Busy {
        /// The request answered.
        request_id: RequestId,
    },
    /// `M`: not the leader; nothing was done.
    Moved {
        /// The request answered.
        request_id: RequestId,
        /// The leader's slot; `None` (255) if unknown.
        leader: Option<Slot>,
    },
    /// `I`: leadership was lost meanwhile; the request may or may not have taken effect.
    Indeterminate {
        /// The request answered.
        request_id: RequestId,
    },
    /// `E`: refused; nothing was done.
    Refused {
        /// The request answered.
        request_id: RequestId,
        /// Why.
        code: ErrorCode,
    },
    /// `L`: unsolicited; the leader is now this slot.
    Leader {
        /// The leader's slot; `None` (255) if none is known.
        leader: Option<Slot>,
    },
}

/// A reply in wire form, held by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedReply {
    buffer: [u8; REPLY_SIZE_BYTES_MAX],
    size: u8,
}

/// What a client knows of its connection and so may expect in replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyRules {
    /// Cluster mode with this many voters (1–5): slots below it exist.
    Cluster {
        /// Number of slots.
        voter_count: u8,
    },
    /// Single mode: no slot exists, so `M` may carry 255 only and `L` never comes.
    Single,
}

impl EncodedReply {
    /// The frame.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..usize::from(self.size)]
    }
}

impl Reply {
    /// The id of the request it answers; `None` for `L`.
    pub const fn request_id(self) -> Option<RequestId> {
        match self {
            Self::Granted { request_id, .. }
            | Self::GrantedSet { request_id, .. }
            | Self::Released { request_id }
            | Self::ReleasedSet { request_id }
            | Self::NotHeld { request_id }
            | Self::TimedOut { request_id }
            | Self::Busy { request_id }
            | Self::Moved { request_id, .. }
            | Self::Indeterminate { request_id }
            | Self::Refused { request_id, .. } => Some(request_id),
            Self::Leader { .. } => None,
        }
    }

    /// Whether it may answer a request of that kind.
    pub fn answers(self, kind: RequestKind) -> bool {
        match self {
            Self::Granted { .. } => kind == RequestKind::Acquire,
            Self::GrantedSet { .. } => kind == RequestKind::AcquireSet,
            Self::Released { .. } => kind == RequestKind::Release,
            Self::ReleasedSet { .. } => kind == RequestKind::ReleaseSet,
            Self::NotHeld { .. } => !kind.is_acquire(),
            Self::TimedOut { .. } | Self::Busy { .. } => kind.is_acquire(),
            Self::Moved { .. } | Self::Indeterminate { .. } => true,
            Self::Refused { code, .. } => code.answers(kind),
            Self::Leader { .. } => false,
        }
    }

    /// Wire form.
    pub fn encode(self) -> EncodedReply {
        match self {
            Self::Granted { request_id, token } => id_token(b'A', request_id, token),
            Self::GrantedSet { request_id, token } => id_token(b'S', request_id, token),
            Self::Released { request_id } => id(b'R', request_id),
            Self::ReleasedSet { request_id } => id(b'G', request_id),
            Self::NotHeld { request_id } => id(b'N', request_id),
            Self::TimedOut { request_id } => id(b'T', request_id),
            Self::Busy { request_id } => id(b'B', request_id),
            Self::Moved { request_id, leader } => id_byte(b'M', request_id, slot_byte(leader)),
            Self::Indeterminate { request_id } => id(b'I', request_id),
            Self::Refused { request_id, code } => id_byte(b'E', request_id, code as u8),
            Self::Leader { leader } => {
                let mut reply = empty(b'L', SLOT_SIZE_BYTES);
                reply.buffer[HEAD_SIZE_BYTES] = slot_byte(leader);
                reply
            }
        }
    }
}

fn empty(opcode: u8, body_size: usize) -> EncodedReply {
    let mut buffer = [0; REPLY_SIZE_BYTES_MAX];
    buffer[..HEAD_SIZE_BYTES].copy_from_slice(&Head { opcode, body_size }.encode());
    // At most 19.
    EncodedReply { buffer, size: (HEAD_SIZE_BYTES + body_size) as u8 }
}

fn with_id(opcode: u8, body_size: usize, request_id: RequestId) -> EncodedReply {
    let mut reply = empty(opcode, body_size);
    reply.buffer[HEAD_SIZE_BYTES..HEAD_SIZE_BYTES + ID_SIZE_BYTES]
        .copy_from_slice(&request_id.get().to_be_bytes());
    reply
}

fn id(opcode: u8, request_id: RequestId) -> EncodedReply {
    with_id(opcode, ID_SIZE_BYTES, request_id)
}

fn id_token(opcode: u8, request_id: RequestId, token: Token) -> EncodedReply {
    let mut reply = with_id(opcode, ID_TOKEN_SIZE_BYTES, request_id);
    reply.buffer[HEAD_SIZE_BYTES + ID_SIZE_BYTES..].copy_from_slice(&token.get().to_be_bytes());
    reply
}

fn id_byte(opcode: u8, request_id: RequestId, byte: u8) -> EncodedReply {
    let mut reply = with_id(opcode, ID_BYTE_SIZE_BYTES, request_id);
    reply.buffer[HEAD_SIZE_BYTES + ID_SIZE_BYTES] = byte;
    reply
}

const fn slot_byte(slot: Option<Slot>) -> u8 {
    match slot {
        Some(slot) => slot.get(),
        None => NO_SLOT,
    }
}

const fn body_size(opcode: u8) -> Option<usize> {
    match opcode {
        b'A' | b'S' => Some(ID_TOKEN_SIZE_BYTES),
        b'R' | b'G' | b'N' | b'T' | b'B' | b'I' => Some(ID_SIZE_BYTES),
        b'M' | b'E' => Some(ID_BYTE_SIZE_BYTES),
        b'L' => Some(SLOT_SIZE_BYTES),
        _ => None,
    }
}

/// Decodes the reply frame at the start of `bytes`.
///
/// Whether the id is outstanding and the kind fits its request is for the caller to check, with
/// [`Reply::answers`].
///
/// # Errors
/// A [`ReplyFault`]: the client closes the session.
pub fn decode_reply(bytes: &[u8], rules: ReplyRules) -> Result<Step<Reply>, ReplyFault> {
    let Some(opcode) = bytes.first() else {
        return Ok(Step::Incomplete);
    };
    let expected_size = body_size(*opcode).ok_or(ReplyFault::UnknownOpcode)?;
    if rules == ReplyRules::Single && *opcode == b'L' {
        return Err(ReplyFault::NotInCluster);
    }
    let Some(head) = Head::decode(bytes) else {
        return Ok(Step::Incomplete);
    };
    if head.body_size != expected_size {
        return Err(ReplyFault::BodyLength);
    }
    let size = HEAD_SIZE_BYTES + head.body_size;
    let Some(body) = bytes.get(HEAD_SIZE_BYTES..size) else {
        return Ok(Step::Incomplete);
    };
    Ok(Step::Complete { value: decode_body(head.opcode, body, rules)?, size })
}

fn decode_body(opcode: u8, body: &[u8], rules: ReplyRules) -> Result<Reply, ReplyFault> {
    let short = ReplyFault::BodyLength;
    let mut reader = Reader::new(body);
    if opcode == b'L' {
        let leader = decode_slot(reader.u8().ok_or(short)?, rules)?;
        return Ok(Reply::Leader { leader });
    }
    let request_id = RequestId::new(reader.u64().ok_or(short)?).ok_or(ReplyFault::RequestIdZero)?;
    Ok(match opcode {
        b'A' | b'S' => {
            let token = Token::new(reader.u64().ok_or(short)?).ok_or(ReplyFault::TokenZero)?;
            if opcode == b'A' {
                Reply::Granted { request_id, token }
            } else {
                Reply::GrantedSet { request_id, token }
            }
        }
        b'R' => Reply::Released { request_id },
        b'G' => Reply::ReleasedSet { request_id },
        b'N' => Reply::NotHeld { request_id },
        b'T' => Reply::TimedOut { request_id },
        b'B' => Reply::Busy { request_id },
        b'I' => Reply::Indeterminate { request_id },
        b'M' => {
            let leader = decode_slot(reader.u8().ok_or(short)?, rules)?;
            Reply::Moved { request_id, leader }
        }
        b'E' => {
            let code = ErrorCode::from_wire(reader.u8().ok_or(short)?);
            Reply::Refused { request_id, code: code.ok_or(ReplyFault::UnknownCode)? }
        }
        _ => return Err(ReplyFault::UnknownOpcode),
    })
}

fn decode_slot(byte: u8, rules: ReplyRules) -> Result<Option<Slot>, ReplyFault> {
    match rules {
        _ if byte == NO_SLOT => Ok(None),
        ReplyRules::Cluster { voter_count } if byte < voter_count => {
            Slot::new(byte).map(Some).ok_or(ReplyFault::Slot)
        }
        ReplyRules::Cluster { .. } | ReplyRules::Single => Err(ReplyFault::Slot),
    }
}
