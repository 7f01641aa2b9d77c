//! The plain encoder: pushes bytes in the order of the protocol page and checks nothing, so that it
//! can also write what is wrong.

/// `opcode u8, body length u16, body`.
pub(crate) fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a test body fits the length field");
    frame_with_length(opcode, length, body)
}

/// A frame whose length field may disagree with its body.
pub(crate) fn frame_with_length(opcode: u8, length: u16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![opcode];
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

/// Body of `A`.
pub(crate) fn acquire_body(request_id: u64, wait: u8, lease: u8, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(request_id.to_be_bytes());
    out.push(wait);
    out.push(lease);
    out.extend(key);
    out
}

/// Body of `R`.
pub(crate) fn release_body(request_id: u64, token: u64, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(request_id.to_be_bytes());
    out.extend(token.to_be_bytes());
    out.extend(key);
    out
}

/// Body of `S`, with a count byte that may disagree with its keys.
pub(crate) fn acquire_set_body(
    request_id: u64,
    wait: u8,
    lease: u8,
    count: u8,
    keys: &[impl AsRef<[u8]>],
) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(request_id.to_be_bytes());
    out.push(wait);
    out.push(lease);
    out.push(count);
    out.extend(records(keys));
    out
}

/// Body of `G`, with a count byte that may disagree with its keys.
pub(crate) fn release_set_body(
    request_id: u64,
    token: u64,
    count: u8,
    keys: &[impl AsRef<[u8]>],
) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(request_id.to_be_bytes());
    out.extend(token.to_be_bytes());
    out.push(count);
    out.extend(records(keys));
    out
}

fn records(keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys {
        let key = key.as_ref();
        out.push(u8::try_from(key.len()).expect("a test key fits its length byte"));
        out.extend(key);
    }
    out
}

/// `A`.
pub(crate) fn acquire(request_id: u64, wait: u8, lease: u8, key: &[u8]) -> Vec<u8> {
    frame(b'A', &acquire_body(request_id, wait, lease, key))
}

/// `R`.
pub(crate) fn release(request_id: u64, token: u64, key: &[u8]) -> Vec<u8> {
    frame(b'R', &release_body(request_id, token, key))
}

/// `S`.
pub(crate) fn acquire_set(
    request_id: u64,
    wait: u8,
    lease: u8,
    keys: &[impl AsRef<[u8]>],
) -> Vec<u8> {
    frame(b'S', &acquire_set_body(request_id, wait, lease, count(keys), keys))
}

/// `G`.
pub(crate) fn release_set(request_id: u64, token: u64, keys: &[impl AsRef<[u8]>]) -> Vec<u8> {
    frame(b'G', &release_set_body(request_id, token, count(keys), keys))
}

fn count(keys: &[impl AsRef<[u8]>]) -> u8 {
    u8::try_from(keys.len()).expect("a test set fits its count byte")
}

/// A reply whose body is a request id and `rest`.
pub(crate) fn reply(opcode: u8, request_id: u64, rest: &[u8]) -> Vec<u8> {
    let mut body = request_id.to_be_bytes().to_vec();
    body.extend(rest);
    frame(opcode, &body)
}

/// `E`.
pub(crate) fn error(request_id: u64, code: u8) -> Vec<u8> {
    reply(b'E', request_id, &[code])
}

/// Everything in a server hello.
#[derive(Clone, Copy)]
pub(crate) struct Hello {
    /// First eight bytes.
    pub(crate) magic: [u8; 8],
    /// Wire version.
    pub(crate) version: u16,
    /// 0 single, 1 cluster.
    pub(crate) mode: u8,
    /// Self slot.
    pub(crate) slot: u8,
    /// Fresh randomness.
    pub(crate) nonce: [u8; 16],
}

impl Hello {
    /// A valid hello.
    pub(crate) fn new(mode: u8, slot: u8, nonce: [u8; 16]) -> Self {
        let magic = [0x54, 0x43, 0x4b, 0x43, 0x4c, 0x49, 0x33, 0x00];
        Self { magic, version: 3, mode, slot, nonce }
    }

    /// 28 bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_be_bytes());
        out.push(self.mode);
        out.push(self.slot);
        out.extend(self.nonce);
        out
    }

    /// The message under the proof.
    pub(crate) fn proof_message(&self, domain: &[u8; 16], fingerprint: &[u8; 32]) -> Vec<u8> {
        let mut out = domain.to_vec();
        out.extend(self.version.to_be_bytes());
        out.push(self.mode);
        out.extend(fingerprint);
        out.push(self.slot);
        out.extend(self.nonce);
        out
    }
}

/// HMAC-SHA-256.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    ring::hmac::sign(&key, message).as_ref().to_vec()
}

/// SHA-256.
pub(crate) fn sha256(message: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, message);
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}
