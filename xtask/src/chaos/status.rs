//! Where a node stands, as `ticketing-server status` tells it.

use std::collections::BTreeMap;

/// A node's own account.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) role: String,
    /// What has to be equal on all nodes once they are quiet.
    pub(crate) state: State,
    /// The generation of each slot's voter.
    pub(crate) voters: BTreeMap<usize, u32>,
    /// Members that are no voters (yet, or any more).
    pub(crate) other_member_count: usize,
    pub(crate) is_replacing: bool,
}

/// What came of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    applied: u64,
    checksum: u64,
    locks: u64,
    waiters: u64,
}

impl Status {
    /// From `name value` lines; `None` unless it is a member's.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = |name: &str| value(name)?.parse().ok();
        let mut voters = BTreeMap::new();
        let mut other_member_count = 0;
        for line in text.lines().filter_map(|line| line.strip_prefix("member ")) {
            let field = |name: &str| {
                line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
            };
            if field("voter")? == "true" {
                voters.insert(field("slot")?.parse().ok()?, field("generation")?.parse().ok()?);
            } else {
                other_member_count += 1;
            }
        }
        Some(Self {
            role: value("role")?.to_owned(),
            state: State {
                applied: number("applied")?,
                checksum: u64::from_str_radix(value("checksum")?, 16).ok()?,
                locks: number("locks")?,
                waiters: number("waiters")?,
            },
            voters,
            other_member_count,
            is_replacing: value("replacing")? == "true",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "mode cluster\nready true\nrole leader\nslot 0\ngeneration 2\nterm 3\n\
                    leader_slot 0\ncommitted 9\napplied 9\nchecksum 00000000000000ff\n\
                    replacing false\nmember slot=0 generation=2 voter=true lag=0 heard=true\n\
                    member slot=1 generation=1 voter=false lag=0 heard=true\nlocks 1\nwaiters 0\n";
        let status = Status::parse(text).expect("complete");
        assert!(!status.is_replacing);
        assert_eq!(status.voters, BTreeMap::from([(0, 2)]));
        assert_eq!(status.other_member_count, 1);
        let state = State { applied: 9, checksum: 255, locks: 1, waiters: 0 };
        assert_eq!(status.state, state);
        assert!(Status::parse("mode cluster\nready false\nrole none\n").is_none());
    }
}
