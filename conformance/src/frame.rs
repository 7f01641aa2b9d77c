//! Frames and handshake bytes as the judge writes and reads them: straight from the protocol page,
//! on purpose without the project's codec, which is one of the things judged.

use crate::failure::hex;
use ring::{digest, hmac};
use std::time::Instant;

/// Size of opcode and body length.
pub const HEAD_SIZE_BYTES: usize = 3;
/// Where the request id ends in every frame that has one.
pub const ID_END: usize = HEAD_SIZE_BYTES + 8;
/// Size of the server's hello.
pub const HELLO_SIZE_BYTES: usize = 28;
/// Size of the client's proof.
pub const PROOF_SIZE_BYTES: usize = 32;
/// Slot byte of "none".
pub const NO_SLOT: u8 = 255;

/// Whom the judge plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Client token that it accepts; empty without authentication.
    pub token: Vec<u8>,
    /// `None` in single mode.
    pub cluster: Option<Cluster>,
}

/// Identity of the cluster played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its fencing domain.
    pub fingerprint: [u8; 32],
    /// Number of slots.
    pub voter_count: u8,
}

/// A request as it left the client's socket.
#[derive(Clone, Debug)]
pub struct Request {
    /// Index of the connection in its [`crate::wire::Wire`].
    pub conn: usize,
    /// Slot of that connection's address; 0 in single mode.
    pub slot: usize,
    /// The whole frame.
    pub bytes: Vec<u8>,
    /// When the judge had read it.
    pub at: Instant,
}

impl Identity {
    /// A single server without authentication.
    pub fn single() -> Self {
        Self { token: Vec::new(), cluster: None }
    }

    /// A cluster without authentication.
    pub fn cluster(voter_count: u8) -> Self {
        let fingerprint = std::array::from_fn(|index| 0xc0 ^ index as u8);
        Self { token: Vec::new(), cluster: Some(Cluster { fingerprint, voter_count }) }
    }

    /// The same one, with a token.
    pub fn with_token(self, token: &[u8]) -> Self {
        Self { token: token.to_vec(), ..self }
    }

    /// The hello of the node in `slot`.
    pub fn hello(&self, slot: usize, nonce: &[u8; 16]) -> [u8; HELLO_SIZE_BYTES] {
        let mut hello = [0; HELLO_SIZE_BYTES];
        hello[..8].copy_from_slice(b"TCKCLI3\0");
        hello[8..10].copy_from_slice(&[0, 3]);
        hello[10] = self.mode_byte();
        hello[11] = self.slot_byte(slot);
        hello[12..].copy_from_slice(nonce);
        hello
    }

    /// The one right answer to that hello.
    pub fn proof(&self, slot: usize, nonce: &[u8; 16]) -> Vec<u8> {
        let mut message = b"TCK/CLIENT/AUTH3".to_vec();
        message.extend([0, 3, self.mode_byte()]);
        message.extend(self.fingerprint());
        message.push(self.slot_byte(slot));
        message.extend(nonce);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.token);
        hmac::sign(&key, &message).as_ref().to_vec()
    }

    fn fingerprint(&self) -> Vec<u8> {
        match &self.cluster {
            Some(cluster) => cluster.fingerprint.to_vec(),
            None => digest::digest(&digest::SHA256, b"ticketing/single/v3").as_ref().to_vec(),
        }
    }

    const fn mode_byte(&self) -> u8 {
        if self.cluster.is_some() { 1 } else { 0 }
    }

    const fn slot_byte(&self, slot: usize) -> u8 {
        if self.cluster.is_some() { slot as u8 } else { NO_SLOT }
    }
}

impl Request {
    /// Opcode as a letter.
    pub fn op(&self) -> char {
        char::from(self.bytes[0])
    }

    /// Request id; 0 when the frame is too short to have one.
    pub fn id(&self) -> u64 {
        self.bytes
            .get(HEAD_SIZE_BYTES..ID_END)
            .map_or(0, |bytes| u64::from_be_bytes(std::array::from_fn(|index| bytes[index])))
    }

    /// Wait byte of an `A` or `S`.
    pub fn wait(&self) -> u8 {
        self.bytes.get(ID_END).copied().unwrap_or(0)
    }

    /// What tells frames of one logical request apart from all others: everything but the id.
    pub fn without_id(&self) -> Vec<u8> {
        with_id(&self.bytes, 0)
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!("frame {} on connection {} (slot {})", hex(&self.bytes), self.conn, self.slot)
    }
}

/// Any frame.
pub fn frame(op: char, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let mut bytes = vec![op as u8];
    bytes.extend(size.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A reply whose body is the request id only: `R`, `G`, `N`, `T`, `B`, `I`.
pub fn answer(op: char, id: u64) -> Vec<u8> {
    frame(op, &id.to_be_bytes())
}

/// A grant: `A` or `S`.
pub fn granted(op: char, id: u64, token: u64) -> Vec<u8> {
    frame(op, &[id.to_be_bytes(), token.to_be_bytes()].concat())
}

/// A reply with one byte after the id: `M` with a slot, `E` with a code.
pub fn answer_byte(op: char, id: u64, byte: u8) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    body.push(byte);
    frame(op, &body)
}

/// `L`.
pub fn leader(slot: u8) -> Vec<u8> {
    frame('L', &[slot])
}

/// The reply that settles a request well: granted with `token`, or released.
pub fn favourable(request: &Request, token: u64) -> Vec<u8> {
    match request.op() {
        op @ ('A' | 'S') => granted(op, request.id(), token),
        op => answer(op, request.id()),
    }
}

/// An acquire frame of one key.
pub fn acquire(id: u64, wait: u8, lease: u8, key: &[u8]) -> Vec<u8> {
    frame('A', &[&id.to_be_bytes(), &[wait, lease][..], key].concat())
}

/// A release frame of one key.
pub fn release(id: u64, token: u64, key: &[u8]) -> Vec<u8> {
    frame('R', &[&id.to_be_bytes()[..], &token.to_be_bytes(), key].concat())
}

/// An acquire frame of a set, its keys in wire order.
pub fn acquire_set(id: u64, wait: u8, lease: u8, keys: &[&[u8]]) -> Vec<u8> {
    frame('S', &[&id.to_be_bytes(), &[wait, lease][..], &records(keys)].concat())
}

/// A release frame of a set, its keys in wire order.
pub fn release_set(id: u64, token: u64, keys: &[&[u8]]) -> Vec<u8> {
    frame('G', &[&id.to_be_bytes()[..], &token.to_be_bytes(), &records(keys)].concat())
}

fn records(keys: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![keys.len() as u8];
    for key in keys {
        bytes.push(key.len() as u8);
        bytes.extend(*key);
    }
    bytes
}

/// The frame with another request id.
pub fn with_id(frame: &[u8], id: u64) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    if let Some(place) = bytes.get_mut(HEAD_SIZE_BYTES..ID_END) {
        place.copy_from_slice(&id.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_protocol_page() {
        assert_eq!(hex(&acquire(1, 0, 30, b"a")), "41000b0000000000000001001e61");
        assert_eq!(hex(&release(2, 7, b"a")), "5200110000000000000002000000000000000761");
        assert_eq!(
            hex(&acquire_set(3, 9, 1, &[b"a", b"bc"])),
            "53001000000000000000030901020161026263"
        );
        assert_eq!(hex(&leader(255)), "4c0001ff");
        assert_eq!(with_id(&acquire(1, 0, 30, b"a"), 9), acquire(9, 0, 30, b"a"));
    }
}
