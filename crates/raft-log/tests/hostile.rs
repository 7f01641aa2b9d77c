//! No message may stop a node, however wrong it is: raft-rs would, so it must not get there.

use bytes::Bytes;
use proptest::prelude::*;
use ticketing_raft_log::{
    Applied, Body, Entry, Membership, MembershipChange, Message, NodeId, Output, Payload, RaftLog,
    Role, SnapshotFault, SnapshotMeta, SnapshotOutcome, StateMachine, VoteKind,
};

/// Takes everything; a snapshot is any bytes but a single 0.
struct Any;

impl StateMachine for Any {
    type Image = ();

    fn apply(&mut self, _: Applied<'_>) {}

    fn begin_snapshot(&mut self) {}

    fn continue_snapshot(&mut self) -> Option<Bytes> {
        Some(Bytes::from_static(b"state"))
    }

    fn decode(&self, snapshot: &[u8]) -> Result<(), SnapshotFault> {
        if snapshot == [0] { Err(SnapshotFault) } else { Ok(()) }
    }

    fn install(&mut self, (): ()) {}
}

/// What is done to the node between messages.
#[derive(Clone, Debug)]
enum Act {
    Step(Message),
    Ticks(u8),
    Propose,
    Admit(u8),
    HandOver,
    LinkClosed(NodeId),
    SnapshotFailed(NodeId),
}

fn node_id() -> impl Strategy<Value = NodeId> {
    (1..4_u32, 0..4_u8).prop_map(|(generation, slot)| NodeId::new(generation, slot).expect("valid"))
}

/// Mostly near the edges of a short log, sometimes anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..8_u64, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just((1 << 56) - 1)]
}

fn change() -> impl Strategy<Value = MembershipChange> {
    prop_oneof![
        node_id().prop_map(MembershipChange::AddLearner),
        Just(MembershipChange::LeaveJoint),
        node_id().prop_map(MembershipChange::RemoveLearner),
        (node_id(), node_id()).prop_map(|(old, new)| MembershipChange::Replace { old, new }),
    ]
}

/// Consecutive from `first` when `orderly`.
fn entries(first: u64) -> impl Strategy<Value = Vec<Entry>> {
    let payload = prop_oneof![
        3 => Just(Payload::Data(Bytes::from_static(b"data"))),
        1 => Just(Payload::Data(Bytes::new())),
        1 => change().prop_map(Payload::Membership),
    ];
    let entry = (number(), any::<bool>(), number(), payload);
    prop::collection::vec(entry, 0..4).prop_map(move |list| {
        let mut next = first;
        list.into_iter()
            .map(|(term, is_orderly, other, payload)| {
                next = next.wrapping_add(1);
                let index = if is_orderly { next } else { other };
                Entry { index, term, payload }
            })
            .collect()
    })
}

fn membership() -> impl Strategy<Value = Membership> {
    let list = || prop::collection::vec(node_id(), 0..4);
    (list(), list(), list(), any::<bool>(), prop::array::uniform5(0..4_u32)).prop_map(
        |(mut voters, mut outgoing, mut learners, is_tidy, generations)| {
            if is_tidy {
                for list in [&mut voters, &mut outgoing, &mut learners] {
                    list.sort_unstable();
                    list.dedup_by_key(|id| id.slot());
                }
            }
            Membership { voters, outgoing, learners, generations }
        },
    )
}

fn vote_kind() -> impl Strategy<Value = VoteKind> {
    prop_oneof![Just(VoteKind::Pre), Just(VoteKind::Real), Just(VoteKind::Transfer)]
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => (number(), number(), number()).prop_flat_map(|(index, previous_term, commit)| {
            let previous_index = index;
            entries(previous_index).prop_map(move |entries| Body::Append {
                previous_index,
                previous_term,
                commit,
                entries,
            })
        }),
        1 => (number(), number()).prop_map(|(index, commit)| Body::Appended { index, commit }),
        1 => (number(), number(), number(), number()).prop_map(
            |(index, hint_index, hint_term, commit)| Body::AppendRefused {
                index,
                hint_index,
                hint_term,
                commit,
            }
        ),
        1 => number().prop_map(|commit| Body::Heartbeat { commit }),
        1 => number().prop_map(|commit| Body::HeartbeatReply { commit }),
        2 => (number(), number(), membership(), any::<bool>()).prop_map(
            |(index, term, membership, is_good)| Body::Snapshot {
                meta: SnapshotMeta { index, term, membership },
                data: Bytes::from_static(if is_good { &[1] } else { &[0] }),
            }
        ),
        1 => Just(Body::TimeoutNow),
        1 => (vote_kind(), number(), number(), number(), number()).prop_map(
            |(kind, last_index, last_term, commit, commit_term)| Body::Vote {
                kind,
                last_index,
                last_term,
                commit,
                commit_term,
            }
        ),
        2 => (vote_kind(), prop::bool::weighted(0.8), number(), number()).prop_map(
            |(kind, granted, commit, commit_term)| Body::VoteReply {
                kind,
                granted,
                commit,
                commit_term,
            }
        ),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let to = prop_oneof![20 => Just(NodeId::new(1, 0).expect("valid")), 1 => node_id()];
    (node_id(), to, number(), body()).prop_map(|(from, to, term, body)| Message {
        from,
        to,
        term,
        body,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => message().prop_map(Act::Step),
        2 => (0..120_u8).prop_map(Act::Ticks),
        1 => Just(Act::Propose),
        1 => (0..4_u8).prop_map(Act::Admit),
        1 => Just(Act::HandOver),
        1 => node_id().prop_map(Act::LinkClosed),
        1 => node_id().prop_map(Act::SnapshotFailed),
    ]
}

fn perform(node: &mut RaftLog<Any>, act: Act, out: &mut Output) {
    match act {
        Act::Step(message) => {
            let _ = node.step(message, &mut Any, out);
        }
        Act::Ticks(count) => (0..count).for_each(|_| node.tick(&mut Any, out)),
        Act::Propose => {
            let _ = node.propose(Bytes::from_static(b"mine"), &mut Any, out);
        }
        Act::Admit(slot) => {
            let _ = node.admit(slot, &mut Any, out);
        }
        Act::HandOver => {
            let _ = node.hand_over(&mut Any, out);
        }
        Act::LinkClosed(peer) => node.link_closed(peer, &mut Any, out),
        Act::SnapshotFailed(peer) => {
            node.snapshot_sent(peer, SnapshotOutcome::Failed, &mut Any, out);
        }
    }
}

/// Brings a voter to power with the votes it asks for.
fn elect(node: &mut RaftLog<Any>) {
    let mut out = Output::default();
    for _ in 0..200 {
        node.tick(&mut Any, &mut out);
        for asked in std::mem::take(&mut out.messages) {
            if let Body::Vote { kind, .. } = asked.body {
                let body = Body::VoteReply { kind, granted: true, commit: 0, commit_term: 0 };
                let reply = Message { from: asked.to, to: asked.from, term: asked.term, body };
                let _ = node.step(reply, &mut Any, &mut out);
            }
        }
        if node.role() == Role::Leader {
            return;
        }
    }
    panic!("not elected");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_a_peer_sends_stops_a_node(
        start in 0..3_u8,
        acts in prop::collection::vec(act(), 1..40),
    ) {
        let id = |slot| NodeId::new(1, slot).expect("valid");
        let mut node = match start {
            0 => RaftLog::join(id(0), 1),
            _ => RaftLog::bootstrap(id(0), &[id(0), id(1), id(2)], 1),
        };
        if start == 2 {
            elect(&mut node);
        }
        let mut out = Output::default();
        for act in acts {
            perform(&mut node, act, &mut out);
            out.messages.clear();
        }
    }
}
