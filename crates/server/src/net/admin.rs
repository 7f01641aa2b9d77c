//! The admin socket: whoever may open it reads where the server stands.

use super::shared::Shared;
use crate::cluster::engine::NodeStatus;
use crate::engine::Counters;
use crate::limits::{ACCEPT_PAUSE, ADMIN_WRITE_TIME_MAX};
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ticketing_raft_log::{NodeId, Role, Status};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tracing::warn;

/// A follower further behind than this, in entries, has not caught up.
const READY_LAG_ENTRIES_MAX: u64 = 1_000;

/// An admin socket that cannot be listened on.
#[derive(Debug)]
pub struct AdminError {
    path: PathBuf,
    error: io::Error,
    remedy: &'static str,
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, error, remedy) = (self.path.display(), &self.error, self.remedy);
        write!(f, "TICKETING_ADMIN_SOCKET: {path}: {error}; {remedy}")
    }
}

impl std::error::Error for AdminError {}

/// A listening admin socket; its file is gone when dropped.
#[derive(Debug)]
pub(crate) struct Admin {
    listener: UnixListener,
    path: PathBuf,
}

impl Admin {
    /// Binds, in place of a socket that a dead server left. Only this user may open it.
    ///
    /// # Errors
    /// Names the path and what to do about it. Whatever may be of use to somebody is still there.
    pub(crate) fn bind(path: &Path) -> Result<Self, AdminError> {
        let fail = |error, remedy| AdminError { path: path.to_owned(), error, remedy };
        make_way(path).map_err(|(error, remedy)| fail(error, remedy))?;
        let in_directory =
            |error| fail(error, "give a path in a directory that the server may write to");
        let listener = UnixListener::bind(path).map_err(in_directory)?;
        let admin = Self { listener, path: path.to_owned() };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(in_directory)?;
        Ok(admin)
    }

    /// Answers every connection with the status and closes it, for ever.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        loop {
            match self.listener.accept().await {
                Ok((mut stream, _)) => {
                    let text = describe(&shared);
                    let write = stream.write_all(text.as_bytes());
                    // Whoever does not read it does not need it.
                    let _ = tokio::time::timeout(ADMIN_WRITE_TIME_MAX, write).await;
                }
                Err(error) => {
                    warn!(%error, "cannot accept on the admin socket; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket on which nobody listens any more, and nothing else.
fn make_way(path: &Path) -> Result<(), (io::Error, &'static str)> {
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        let error = io::Error::new(ErrorKind::AlreadyExists, "there is something, and no socket");
        return Err((error, "give another path, or remove that"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let remedy =
                "a dead server left it: remove it, or let the server write to its directory";
            fs::remove_file(path).map_err(|error| (error, remedy))
        }
        Err(error) => Err((error, "somebody may listen there: give another path, or remove it")),
        Ok(_) => Err((
            ErrorKind::AddrInUse.into(),
            "another server listens there: stop that one, or give this one a path of its own",
        )),
    }
}

/// `name value` lines. The second says whether clients should be sent here.
fn describe(shared: &Shared) -> String {
    let counters = shared.counters();
    match shared.cluster(|engine, now| engine.status(now)) {
        None => single(shared.time_to_active(), counters),
        Some(status) => cluster(&status, counters),
    }
}

fn single(time_to_active: Duration, counters: Counters) -> String {
    let is_ready = time_to_active.is_zero();
    let mut text = format!("mode single\nready {is_ready}\n");
    if !is_ready {
        let seconds = time_to_active.as_secs_f64();
        let _ = writeln!(text, "waiting_for the predecessor's leases, {seconds:.1} s");
    }
    text + &figures(counters)
}

fn cluster(status: &NodeStatus, counters: Counters) -> String {
    let mut text = format!("mode cluster\nready {}\n", is_ready(status));
    match (&status.log, &status.waiting) {
        (Some(log), _) => {
            let role = match log.role {
                Role::Candidate => "candidate",
                Role::Follower => "follower",
                Role::Leader => "leader",
                Role::Learner => "learner",
            };
            let leader = log.leader.map_or("none".into(), |leader| leader.slot().to_string());
            let _ = writeln!(text, "role {role}\nslot {}", log.id.slot());
            let _ = writeln!(text, "generation {}", log.id.generation());
            let _ = writeln!(text, "term {}\nleader_slot {leader}", log.term);
            let _ = writeln!(text, "committed {}\napplied {}", log.committed, log.applied);
            let _ = writeln!(text, "checksum {:016x}", status.checksum);
            let _ = writeln!(text, "replacing {}", log.is_joint);
            for member in &log.members {
                let (slot, generation) = (member.id.slot(), member.id.generation());
                let _ = write!(text, "member slot={slot} generation={generation}");
                let _ = write!(text, " voter={}", member.is_voter);
                if let (Some(matched), Some(is_heard)) = (member.matched, member.is_heard) {
                    let lag = log.last.saturating_sub(matched);
                    let _ = write!(text, " lag={lag} heard={is_heard}");
                }
                text.push('\n');
            }
        }
        (None, Some(waiting)) => {
            let _ = writeln!(text, "role none\nwaiting_for {waiting}");
        }
        (None, None) => {}
    }
    let _ = writeln!(text, "locks {}\nwaiters {}", status.grant_count, status.waiter_count);
    text + &figures(counters)
}

fn figures(counters: Counters) -> String {
    format!("sessions {}\nin_flight {}\n", counters.sessions, counters.in_flight)
}

/// Whether the node takes part and is of use: a voter that has caught up, knows a leader, and has
/// its slot to itself.
fn is_ready(status: &NodeStatus) -> bool {
    status.log.as_ref().is_some_and(|log| {
        matches!(log.role, Role::Follower | Role::Leader)
            && log.leader.is_some()
            && log.applied + READY_LAG_ENTRIES_MAX >= log.committed
            && !is_slot_changing(log)
    })
}

/// Whether the node's own slot is passing from one process to another. Until that is complete, the
/// majority of the voters before it is needed too, and their dead one counts: whoever took the new
/// one for ready and went on to the next node could end the identity. The other nodes serve as
/// before and stay ready.
fn is_slot_changing(log: &Status) -> bool {
    let is_rival = |id: NodeId| id.slot() == log.id.slot() && id != log.id;
    log.is_joint && log.members.iter().any(|member| is_rival(member.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixDatagram;
    use ticketing_raft_log::MemberStatus;

    #[tokio::test]
    async fn only_a_socket_on_which_nobody_listens_makes_way() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("admin");
        let refused = |part: &str| {
            let before = fs::symlink_metadata(&path).expect("there");
            let error = Admin::bind(&path).expect_err("taken").to_string();
            let begins = format!("TICKETING_ADMIN_SOCKET: {}: ", path.display());
            assert!(error.starts_with(&begins) && error.contains(part), "{error}");
            assert_eq!(fs::symlink_metadata(&path).expect("still there").ino(), before.ino());
        };
        fs::write(&path, "precious").expect("written");
        refused("no socket; give another path");
        fs::remove_file(&path).expect("there");

        // Another kind of socket, whose server is alive: a connection fails, but is not refused.
        let datagrams = UnixDatagram::bind(&path).expect("free");
        refused("somebody may listen there");
        drop(datagrams);
        fs::remove_file(&path).expect("there");

        let alive = Admin::bind(&path).expect("free");
        refused("another server listens there");
        drop(alive);
        assert!(!path.exists());

        drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
        assert!(path.exists(), "as a dead server leaves it");
        drop(Admin::bind(&path).expect("nobody listens"));
    }

    /// A follower of three, in whose cluster slot 1 has a second process.
    fn status(own: NodeId, is_joint: bool, rival: Option<NodeId>) -> NodeStatus {
        let id = |slot| NodeId::new(1, slot).expect("valid");
        let ids = [id(0), id(1), id(2)].into_iter().chain(rival);
        let member =
            |id| MemberStatus { id, is_voter: Some(id) != rival, matched: None, is_heard: None };
        let log = Status {
            id: own,
            role: Role::Follower,
            term: 2,
            leader: Some(id(0)),
            committed: 9,
            applied: 9,
            last: 9,
            members: ids.map(member).collect(),
            is_joint,
        };
        NodeStatus { log: Some(log), waiting: None, grant_count: 0, waiter_count: 0, checksum: 0 }
    }

    #[test]
    fn a_new_voter_is_ready_only_when_its_replacement_is_complete() {
        let (old, new) = (NodeId::new(1, 1).expect("valid"), NodeId::new(2, 1).expect("valid"));
        let other = NodeId::new(1, 2).expect("valid");
        assert!(!is_ready(&status(new, true, Some(new))));
        assert!(!is_ready(&status(old, true, Some(new))));
        assert!(is_ready(&status(other, true, Some(new))), "the others serve as before");
        assert!(is_ready(&status(old, false, Some(new))), "a learner takes nothing away yet");
        assert!(is_ready(&status(old, false, None)));
    }
}
