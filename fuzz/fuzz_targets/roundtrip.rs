//! Values through encoder and decoder: what is encoded decodes to the same values, what is refused
//! is refused for the reason the decoder would give.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use ticketing_wire_codec::limits::REQUEST_SIZE_BYTES_MAX;
use ticketing_wire_codec::{
    ErrorCode, Keys, Operation, RequestFrame, RequestId, Step, Token, decode_request,
    encode_acquire, encode_acquire_set, encode_release, encode_release_set,
};

#[derive(Arbitrary, Debug)]
enum Request<'a> {
    Acquire { wait: u8, lease: u8, key: &'a [u8] },
    AcquireSet { wait: u8, lease: u8, keys: Vec<&'a [u8]>, is_sorted: bool },
    Release { token: u64, key: &'a [u8] },
    ReleaseSet { token: u64, keys: Vec<&'a [u8]>, is_sorted: bool },
}

fuzz_target!(|input: (u64, Request<'_>)| {
    let (id, mut request) = input;
    let Some(id) = RequestId::new(id) else { return };
    if let Request::AcquireSet { keys, is_sorted: true, .. }
    | Request::ReleaseSet { keys, is_sorted: true, .. } = &mut request
    {
        keys.sort_unstable();
        keys.dedup();
    }
    let mut buffer = [0; REQUEST_SIZE_BYTES_MAX];
    let Ok(bytes) = encode(&mut buffer, id, &request) else { return };
    let Ok(Step::Complete { value, size }) = decode_request(bytes) else {
        panic!("what was encoded must decode: {bytes:?}");
    };
    assert_eq!(size, bytes.len());
    assert_eq!(value.request_id, id);
    assert!(is_same(&value, &request));
});

fn encode<'a>(
    buffer: &'a mut [u8; REQUEST_SIZE_BYTES_MAX],
    id: RequestId,
    request: &Request<'_>,
) -> Result<&'a [u8], ErrorCode> {
    match request {
        Request::Acquire { wait, lease, key } => encode_acquire(buffer, id, *wait, *lease, key),
        Request::AcquireSet { wait, lease, keys, .. } => {
            encode_acquire_set(buffer, id, *wait, *lease, keys.iter().copied())
        }
        Request::Release { token, key } => {
            let token = Token::new(*token).ok_or(ErrorCode::BadToken)?;
            encode_release(buffer, id, token, key)
        }
        Request::ReleaseSet { token, keys, .. } => {
            let token = Token::new(*token).ok_or(ErrorCode::BadToken)?;
            encode_release_set(buffer, id, token, keys.iter().copied())
        }
    }
}

fn is_same(frame: &RequestFrame<'_>, request: &Request<'_>) -> bool {
    let Ok(operation) = frame.operation else { return false };
    match (operation, request) {
        (
            Operation::Acquire { wait_seconds, lease_seconds, keys: Keys::One(decoded) },
            Request::Acquire { wait, lease, key },
        ) => (wait_seconds, lease_seconds, decoded) == (*wait, *lease, *key),
        (
            Operation::Acquire { wait_seconds, lease_seconds, keys: Keys::Set(decoded) },
            Request::AcquireSet { wait, lease, keys, .. },
        ) => (wait_seconds, lease_seconds) == (*wait, *lease) && decoded.eq(keys.iter().copied()),
        (
            Operation::Release { token: decoded_token, keys: Keys::One(decoded) },
            Request::Release { token, key },
        ) => (decoded_token.get(), decoded) == (*token, *key),
        (
            Operation::Release { token: decoded_token, keys: Keys::Set(decoded) },
            Request::ReleaseSet { token, keys, .. },
        ) => decoded_token.get() == *token && decoded.eq(keys.iter().copied()),
        _ => false,
    }
}
