//! The header of every frame: opcode u8, body length u16.

use crate::limits::HEAD_SIZE_BYTES;

#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) opcode: u8,
    pub(crate) body_size: usize,
}

impl Head {
    /// `None` until the header is whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<HEAD_SIZE_BYTES>()?;
        let body_size = usize::from(u16::from_be_bytes([head[1], head[2]]));
        Some(Self { opcode: head[0], body_size })
    }

    pub(crate) fn encode(self) -> [u8; HEAD_SIZE_BYTES] {
        let size = u16::try_from(self.body_size).expect("a body is at most 2,081 bytes");
        let [high, low] = size.to_be_bytes();
        [self.opcode, high, low]
    }
}
