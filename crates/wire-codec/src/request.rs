//! Request frames: `A`, `R`, `S`, `G`. Protocol, "Request frames".

use crate::Step;
use crate::error::{ErrorCode, RequestFault};
use crate::head::Head;
use crate::id::{RequestId, Token};
use crate::key::{check_key, check_key_set};
use crate::limits::{
    ACQUIRE_BODY_SIZE_BYTES_MAX, ACQUIRE_FIXED_SIZE_BYTES, ACQUIRE_SET_BODY_SIZE_BYTES_MAX,
    ACQUIRE_SET_FIXED_SIZE_BYTES, HEAD_SIZE_BYTES, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN,
    RELEASE_BODY_SIZE_BYTES_MAX, RELEASE_FIXED_SIZE_BYTES, RELEASE_SET_BODY_SIZE_BYTES_MAX,
    RELEASE_SET_FIXED_SIZE_BYTES, REQUEST_SIZE_BYTES_MAX,
};
use crate::reader::Reader;

/// The four requests. A set is two or more keys under one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// `A`: acquire one key.
    Acquire,
    /// `R`: release one key.
    Release,
    /// `S`: acquire a key set, all or nothing.
    AcquireSet,
    /// `G`: release a key set.
    ReleaseSet,
}

impl RequestKind {
    /// Every kind, in the order of the protocol page.
    pub const ALL: [Self; 4] = [Self::Acquire, Self::Release, Self::AcquireSet, Self::ReleaseSet];

    /// Its opcode.
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Acquire => b'A',
            Self::Release => b'R',
            Self::AcquireSet => b'S',
            Self::ReleaseSet => b'G',
        }
    }

    /// Whether it asks for a grant.
    pub const fn is_acquire(self) -> bool {
        matches!(self, Self::Acquire | Self::AcquireSet)
    }

    const fn from_opcode(opcode: u8) -> Option<Self> {
        match opcode {
            b'A' => Some(Self::Acquire),
            b'R' => Some(Self::Release),
            b'S' => Some(Self::AcquireSet),
            b'G' => Some(Self::ReleaseSet),
            _ => None,
        }
    }

    fn body_size_fits(self, size: usize) -> bool {
        let range = match self {
            Self::Acquire => ACQUIRE_FIXED_SIZE_BYTES..=ACQUIRE_BODY_SIZE_BYTES_MAX,
            Self::Release => RELEASE_FIXED_SIZE_BYTES..=RELEASE_BODY_SIZE_BYTES_MAX,
            Self::AcquireSet => ACQUIRE_SET_FIXED_SIZE_BYTES..=ACQUIRE_SET_BODY_SIZE_BYTES_MAX,
            Self::ReleaseSet => RELEASE_SET_FIXED_SIZE_BYTES..=RELEASE_SET_BODY_SIZE_BYTES_MAX,
        };
        range.contains(&size)
    }
}

/// A well-formed request frame, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFrame<'a> {
    /// Echoed in the reply.
    pub request_id: RequestId,
    /// Which reply fits it.
    pub kind: RequestKind,
    /// What is asked, or the `E` code that answers it.
    pub operation: Result<Operation<'a>, ErrorCode>,
}

/// What a request asks, with every value checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `A` or `S`.
    Acquire {
        /// Upper bound on queueing, in seconds; 0 is one immediate try.
        wait_seconds: u8,
        /// Lease, 1–250 seconds.
        lease_seconds: u8,
        /// The keys.
        keys: Keys<'a>,
    },
    /// `R` or `G`.
    Release {
        /// The grant's token.
        token: Token,
        /// The keys it was granted for.
        keys: Keys<'a>,
    },
}

/// One key, or a set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys<'a> {
    /// `A` and `R`.
    One(&'a [u8]),
    /// `S` and `G`.
    Set(SetKeys<'a>),
}

/// The records of a set: an iterator over its keys, which fill the frame exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetKeys<'a> {
    records: &'a [u8],
    count: u8,
}

impl<'a> SetKeys<'a> {
    fn new(records: &'a [u8], count: u8) -> Result<Self, RequestFault> {
        let mut reader = Reader::new(records);
        for _ in 0..count {
            let size = reader.u8().ok_or(RequestFault::RecordsLength)?;
            reader.take(usize::from(size)).ok_or(RequestFault::RecordsLength)?;
        }
        if reader.rest().is_empty() {
            Ok(Self { records, count })
        } else {
            Err(RequestFault::RecordsLength)
        }
    }
}

impl<'a> Iterator for SetKeys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (size, rest) = self.records.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*size))?;
        self.records = rest;
        self.count -= 1;
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.count), Some(usize::from(self.count)))
    }
}

impl ExactSizeIterator for SetKeys<'_> {}

/// Decodes the request frame at the start of `bytes`.
///
/// The body length is checked against the opcode's range as soon as the header is there, so a
/// frame that can never be valid is refused before its body arrives.
///
/// # Errors
/// A [`RequestFault`] ends the connection. A bad value inside a well-formed frame does not: it is
/// the `Err` of [`RequestFrame::operation`].
pub fn decode_request(bytes: &[u8]) -> Result<Step<RequestFrame<'_>>, RequestFault> {
    let Some(head) = Head::decode(bytes) else {
        // The opcode alone can already be wrong.
        return match bytes.first() {
            Some(opcode) if RequestKind::from_opcode(*opcode).is_none() => {
                Err(RequestFault::UnknownOpcode)
            }
            _ => Ok(Step::Incomplete),
        };
    };
    let kind = RequestKind::from_opcode(head.opcode).ok_or(RequestFault::UnknownOpcode)?;
    if !kind.body_size_fits(head.body_size) {
        return Err(RequestFault::BodyLength);
    }
    let size = HEAD_SIZE_BYTES + head.body_size;
    let Some(body) = bytes.get(HEAD_SIZE_BYTES..size) else {
        return Ok(Step::Incomplete);
    };
    Ok(Step::Complete { value: decode_body(kind, body)?, size })
}

fn decode_body(kind: RequestKind, body: &[u8]) -> Result<RequestFrame<'_>, RequestFault> {
    let mut reader = Reader::new(body);
    let short = RequestFault::BodyLength;
    let request_id = reader.u64().ok_or(short)?;
    let request_id = RequestId::new(request_id).ok_or(RequestFault::RequestIdZero)?;
    let operation =
        if kind.is_acquire() {
            let wait_seconds = reader.u8().ok_or(short)?;
            let lease_seconds = reader.u8().ok_or(short)?;
            let keys = decode_keys(kind, &mut reader)?;
            // Protocol, "Order of checks": the keys before the lease.
            check_keys(keys)
                .and_then(|()| check_lease(lease_seconds))
                .map(|()| Operation::Acquire { wait_seconds, lease_seconds, keys })
        } else {
            let token = Token::new(reader.u64().ok_or(short)?);
            let keys = decode_keys(kind, &mut reader)?;
            // Protocol, "Order of checks": the token before the keys.
            token
                .ok_or(ErrorCode::BadToken)
                .and_then(|token| check_keys(keys).map(|()| Operation::Release { token, keys }))
        };
    Ok(RequestFrame { request_id, kind, operation })
}

fn decode_keys<'a>(kind: RequestKind, reader: &mut Reader<'a>) -> Result<Keys<'a>, RequestFault> {
    match kind {
        RequestKind::Acquire | RequestKind::Release => Ok(Keys::One(reader.rest())),
        RequestKind::AcquireSet | RequestKind::ReleaseSet => {
            let count = reader.u8().ok_or(RequestFault::BodyLength)?;
            SetKeys::new(reader.rest(), count).map(Keys::Set)
        }
    }
}

fn check_keys(keys: Keys<'_>) -> Result<(), ErrorCode> {
    match keys {
        Keys::One(key) => check_key(key),
        Keys::Set(set) => check_key_set(set),
    }
}

fn check_lease(lease_seconds: u8) -> Result<(), ErrorCode> {
    if (LEASE_SECONDS_MIN..=LEASE_SECONDS_MAX).contains(&lease_seconds) {
        Ok(())
    } else {
        Err(ErrorCode::BadLease)
    }
}

/// A frame under construction in the caller's buffer.
struct Writer<'a> {
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    size: usize,
}

impl<'a> Writer<'a> {
    fn new(buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX]) -> Self {
        Self { buffer, size: HEAD_SIZE_BYTES }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.size..self.size + bytes.len()].copy_from_slice(bytes);
        self.size += bytes.len();
    }

    fn records<'k>(&mut self, keys: impl ExactSizeIterator<Item = &'k [u8]>) {
        self.put(&[u8::try_from(keys.len()).expect("a checked set has at most 16 keys")]);
        for key in keys {
            self.put(&[u8::try_from(key.len()).expect("a checked key has at most 128 bytes")]);
            self.put(key);
        }
    }

    fn finish(self, kind: RequestKind) -> &'a [u8] {
        let head = Head { opcode: kind.opcode(), body_size: self.size - HEAD_SIZE_BYTES };
        self.buffer[..HEAD_SIZE_BYTES].copy_from_slice(&head.encode());
        &self.buffer[..self.size]
    }
}

/// Encodes `A` into `buffer` and returns the frame.
///
/// # Errors
/// The code the server would answer for the same values.
pub fn encode_acquire<'a>(
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    request_id: RequestId,
    wait_seconds: u8,
    lease_seconds: u8,
    key: &[u8],
) -> Result<&'a [u8], ErrorCode> {
    check_key(key)?;
    check_lease(lease_seconds)?;
    let mut writer = Writer::new(buffer);
    writer.put(&request_id.get().to_be_bytes());
    writer.put(&[wait_seconds, lease_seconds]);
    writer.put(key);
    Ok(writer.finish(RequestKind::Acquire))
}

/// Encodes `R` into `buffer` and returns the frame.
///
/// # Errors
/// The code the server would answer for the same values.
pub fn encode_release<'a>(
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    request_id: RequestId,
    token: Token,
    key: &[u8],
) -> Result<&'a [u8], ErrorCode> {
    check_key(key)?;
    let mut writer = Writer::new(buffer);
    writer.put(&request_id.get().to_be_bytes());
    writer.put(&token.get().to_be_bytes());
    writer.put(key);
    Ok(writer.finish(RequestKind::Release))
}

/// Encodes `S` into `buffer` and returns the frame.
///
/// # Errors
/// The code the server would answer for the same values.
pub fn encode_acquire_set<'a, 'k>(
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    request_id: RequestId,
    wait_seconds: u8,
    lease_seconds: u8,
    keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
) -> Result<&'a [u8], ErrorCode> {
    check_key_set(keys.clone())?;
    check_lease(lease_seconds)?;
    let mut writer = Writer::new(buffer);
    writer.put(&request_id.get().to_be_bytes());
    writer.put(&[wait_seconds, lease_seconds]);
    writer.records(keys);
    Ok(writer.finish(RequestKind::AcquireSet))
}

/// Encodes `G` into `buffer` and returns the frame.
///
/// # Errors
/// The code the server would answer for the same values.
pub fn encode_release_set<'a, 'k>(
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    request_id: RequestId,
    token: Token,
    keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
) -> Result<&'a [u8], ErrorCode> {
    check_key_set(keys.clone())?;
    let mut writer = Writer::new(buffer);
    writer.put(&request_id.get().to_be_bytes());
    writer.put(&token.get().to_be_bytes());
    writer.records(keys);
    Ok(writer.finish(RequestKind::ReleaseSet))
}
