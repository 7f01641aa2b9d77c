//! Reply bytes on their way to the socket: the record of what has been delivered.

use ticketing_wire_codec::{Reply, ReplyRules, Step, Token, decode_reply};

/// Written frames are dropped from the front once they take this much.
const COMPACT_SIZE_BYTES: usize = 64 * 1024;
/// The reader of these frames is the server itself: any slot goes.
const RULES: ReplyRules = ReplyRules::Cluster { voter_count: 5 };

/// Whole reply frames, and how many of their bytes the socket has taken.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Begins at a frame's first byte.
    frames: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Whether everything was written.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// What the socket has not taken yet.
    pub fn unwritten(&self) -> &[u8] {
        &self.frames[self.written..]
    }

    /// Appends whole frames.
    pub fn push(&mut self, frames: &[u8]) {
        self.frames.extend_from_slice(frames);
    }

    /// Notes that the socket took `size` bytes more.
    pub fn advance(&mut self, size: usize) {
        assert!(size <= self.unwritten().len(), "a socket cannot take more than it was given");
        self.written += size;
        if self.written == self.frames.len() {
            // A connection that keeps up owns no buffer.
            *self = Self::default();
        } else if self.written >= COMPACT_SIZE_BYTES {
            let whole = frames(&self.frames)
                .map(|(end, _)| end)
                .take_while(|end| *end <= self.written)
                .last()
                .unwrap_or(0);
            self.frames.drain(..whole);
            self.written -= whole;
        }
    }

    /// The grants whose frames the socket has not taken completely.
    pub fn undelivered_grants(&self) -> impl Iterator<Item = Token> + '_ {
        undelivered_grants(&self.frames, self.written)
    }
}

/// The grants in `frames` that end after byte `written`.
pub(crate) fn undelivered_grants(bytes: &[u8], written: usize) -> impl Iterator<Item = Token> + '_ {
    frames(bytes).filter(move |(end, _)| *end > written).filter_map(|(_, reply)| match reply {
        Reply::Granted { token, .. } | Reply::GrantedSet { token, .. } => Some(token),
        _ => None,
    })
}

/// Every frame with the offset of its end.
fn frames(bytes: &[u8]) -> impl Iterator<Item = (usize, Reply)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || match decode_reply(bytes.get(at..)?, RULES) {
        Ok(Step::Complete { value, size }) => {
            at += size;
            Some((at, value))
        }
        Ok(Step::Incomplete) => {
            assert!(at == bytes.len(), "outgoing bytes are whole frames");
            None
        }
        Err(fault) => panic!("the server encoded a frame it cannot read: {fault}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ticketing_wire_codec::RequestId;

    fn grant(id: u64) -> Vec<u8> {
        let request_id = RequestId::new(id).expect("not zero");
        let token = Token::new(id + 1_000).expect("not zero");
        Reply::Granted { request_id, token }.encode().as_bytes().to_vec()
    }

    fn release(id: u64) -> Vec<u8> {
        let request_id = RequestId::new(id).expect("not zero");
        Reply::Released { request_id }.encode().as_bytes().to_vec()
    }

    fn tokens(outgoing: &Outgoing) -> Vec<u64> {
        outgoing.undelivered_grants().map(Token::get).collect()
    }

    #[test]
    fn a_grant_counts_as_delivered_with_its_last_byte() {
        let mut outgoing = Outgoing::default();
        outgoing.push(&grant(1));
        outgoing.push(&release(2));
        outgoing.push(&grant(3));
        assert_eq!(tokens(&outgoing), [1_001, 1_003]);
        outgoing.advance(18);
        assert_eq!(tokens(&outgoing), [1_001, 1_003]);
        outgoing.advance(1);
        assert_eq!(tokens(&outgoing), [1_003]);
        outgoing.advance(11 + 18);
        assert_eq!(tokens(&outgoing), [1_003]);
        outgoing.advance(1);
        assert!(outgoing.is_empty());
        assert_eq!(tokens(&outgoing), []);
    }

    #[test]
    fn a_reader_that_is_always_behind_costs_bounded_memory() {
        let mut outgoing = Outgoing::default();
        outgoing.push(&grant(1));
        for id in 2..100_000 {
            outgoing.push(&grant(id));
            outgoing.advance(19);
            assert!(outgoing.frames.len() <= COMPACT_SIZE_BYTES + 2 * 19);
        }
        assert_eq!(tokens(&outgoing), [100_999]);
        outgoing.advance(7);
        assert_eq!(tokens(&outgoing), [100_999]);
    }
}
