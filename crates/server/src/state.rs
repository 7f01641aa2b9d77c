//! The state directory: what a server has to know of its predecessor to never give a key to two
//! live holders, however the predecessor ended.
//!
//! One small text file, replaced atomically: the longest lease ever granted, a ceiling above every
//! token granted, and how the last run ended.

use crate::engine::Persisted;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE_NAME: &str = "state";
const FILE_NAME_NEW: &str = "state.new";
const FILE_NAME_LOCK: &str = "lock";
const FIRST_LINE: &str = "ticketing-server state 1";
/// The file has four lines; anything beyond this is not ours.
const FILE_SIZE_BYTES_MAX: u64 = 4_096;

/// An open state directory; nobody else has it open.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    _lock: File,
    is_sealed: bool,
}

/// What the predecessor left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// Its promises.
    pub(crate) persisted: Persisted,
    /// How long its leases may still run, from now.
    pub(crate) lease_time_left: Duration,
    /// Whether it stopped in order.
    pub(crate) is_clean: bool,
}

impl Predecessor {
    /// What there is before the first run.
    pub(crate) const NONE: Self = Self {
        persisted: Persisted { lease_seconds_max: 0, token_ceiling: 0 },
        lease_time_left: Duration::ZERO,
        is_clean: true,
    };
}

/// Why the state directory cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum StateError {
    /// The file is not what this version writes.
    Content(PathBuf),
    /// Another server uses it.
    InUse(PathBuf),
    /// The system refuses.
    Io(PathBuf, io::Error),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(path) => write!(
                f,
                "TICKETING_STATE_DIR: {} was not written by this version or is damaged; make sure \
                 that the last server has been down for 250 s, then remove the file",
                path.display()
            ),
            Self::InUse(path) => write!(
                f,
                "TICKETING_STATE_DIR: {} is in use by another server; stop that one or give this \
                 one a directory of its own",
                path.display()
            ),
            Self::Io(path, error) => write!(
                f,
                "TICKETING_STATE_DIR: {}: {error}; give a directory that the server may write to",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StateError {}

/// How a run ends, as the file tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// In order; its leases run this much longer, in milliseconds.
    Clean(u64),
    /// Not yet, or by a crash.
    Running,
}

impl StateDir {
    /// Opens the directory, creating it if need be, and reads what the predecessor left.
    ///
    /// # Errors
    /// Names the file and what to do about it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<Predecessor>), StateError> {
        let in_path = |error| StateError::Io(path.to_owned(), error);
        create_directory(path).map_err(in_path)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(FILE_NAME_LOCK))
            .map_err(in_path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StateError::InUse(path.to_owned()),
            TryLockError::Error(error) => in_path(error),
        })?;
        let file = path.join(FILE_NAME);
        let predecessor = match read(&file) {
            Ok(content) => {
                let content = String::from_utf8_lossy(&content);
                Some(parse(&content).ok_or(StateError::Content(file))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StateError::Io(file, error)),
        };
        Ok((Self { path: path.to_owned(), _lock: lock, is_sealed: false }, predecessor))
    }

    /// Writes the promises of a running server. On return they are on the disk.
    ///
    /// # Errors
    /// What the system says; the promises before still hold.
    pub(crate) fn promise(&mut self, persisted: Persisted) -> Result<(), StateError> {
        if self.is_sealed { Ok(()) } else { self.replace(persisted, Mark::Running) }
    }

    /// Notes that the server stopped in order and how long its leases may still run.
    ///
    /// # Errors
    /// What the system says; the next start will take this run for crashed.
    pub(crate) fn seal(
        &mut self,
        persisted: Persisted,
        lease_time_left: Duration,
    ) -> Result<(), StateError> {
        self.is_sealed = true;
        let milliseconds = lease_time_left.as_nanos().div_ceil(1_000_000) as u64;
        self.replace(persisted, Mark::Clean(milliseconds))
    }

    fn replace(&self, persisted: Persisted, mark: Mark) -> Result<(), StateError> {
        self.try_replace(persisted, mark).map_err(|error| StateError::Io(self.path.clone(), error))
    }

    fn try_replace(&self, persisted: Persisted, mark: Mark) -> io::Result<()> {
        let new = self.path.join(FILE_NAME_NEW);
        let mut file = File::create(&new)?;
        file.write_all(render(persisted, mark).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(FILE_NAME))?;
        // The rename itself has to survive too.
        File::open(&self.path)?.sync_all()
    }
}

/// Makes the directory, and those above it, if need be. On return it is on the disk: a power cut
/// takes with it whatever is in a directory whose own name was never written.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let parents = parents_to_write(path);
    fs::create_dir_all(path)?;
    parents.iter().try_for_each(|parent| File::open(parent)?.sync_all())
}

/// Where a name will be missing from.
fn parents_to_write(path: &Path) -> Vec<PathBuf> {
    let names = path.ancestors().filter(|part| part.file_name().is_some());
    let missing = names.take_while(|name| !name.exists());
    let parent = |name: &Path| match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    missing.map(parent).collect()
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::Read::read_to_end(
        &mut io::Read::take(File::open(file)?, FILE_SIZE_BYTES_MAX),
        &mut content,
    )?;
    Ok(content)
}

fn render(persisted: Persisted, mark: Mark) -> String {
    let Persisted { lease_seconds_max, token_ceiling } = persisted;
    let end = match mark {
        Mark::Clean(milliseconds) => format!("clean {milliseconds}"),
        Mark::Running => "running".to_owned(),
    };
    format!(
        "{FIRST_LINE}\nlease_seconds_max {lease_seconds_max}\n\
         token_ceiling {token_ceiling}\n{end}\n"
    )
}

fn parse(content: &str) -> Option<Predecessor> {
    let mut lines = content.strip_suffix('\n')?.split('\n');
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let lease_seconds_max = lines.next()?.strip_prefix("lease_seconds_max ")?.parse().ok()?;
    let token_ceiling = lines.next()?.strip_prefix("token_ceiling ")?.parse().ok()?;
    let end = lines.next()?;
    let clean = match end.strip_prefix("clean ") {
        Some(milliseconds) => Some(milliseconds.parse().ok()?),
        None if end == "running" => None,
        None => return None,
    };
    lines.next().is_none().then_some(Predecessor {
        persisted: Persisted { lease_seconds_max, token_ceiling },
        lease_time_left: clean
            .map_or(Duration::from_secs(lease_seconds_max.into()), Duration::from_millis),
        is_clean: clean.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: Persisted = Persisted { lease_seconds_max: 60, token_ceiling: u64::MAX - 1 };

    fn reopen(path: &Path) -> (StateDir, Option<Predecessor>) {
        StateDir::open(path).expect("a directory of our own")
    }

    #[test]
    fn a_crash_leaves_the_longest_lease_and_a_clean_stop_what_is_left_of_it() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("not/there/yet");
        let (mut state, predecessor) = reopen(&path);
        assert_eq!(predecessor, None);
        state.promise(PROMISE).expect("written");
        drop(state);

        let (mut state, predecessor) = reopen(&path);
        let lease_time_left = Duration::from_secs(60);
        let crashed = Predecessor { persisted: PROMISE, lease_time_left, is_clean: false };
        assert_eq!(predecessor, Some(crashed));
        state.seal(PROMISE, Duration::from_nanos(7_000_000_001)).expect("written");
        // A write that was under way must not undo the mark.
        state.promise(PROMISE).expect("ignored");
        drop(state);

        let lease_time_left = Duration::from_millis(7_001);
        let stopped = Predecessor { persisted: PROMISE, lease_time_left, is_clean: true };
        assert_eq!(reopen(&path).1, Some(stopped));
    }

    #[test]
    fn every_directory_that_gets_a_new_name_is_written() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        let (path, parents) = (root.join("a/b"), [root.join("a"), root.to_owned()]);
        assert_eq!(parents_to_write(&path), parents);
        create_directory(&path).expect("a directory of our own");
        assert!(path.is_dir());
        assert!(parents_to_write(&path).is_empty());
        assert_eq!(parents_to_write(Path::new("not-there")), [Path::new(".")]);
        assert!(parents_to_write(Path::new("/")).is_empty());
    }

    #[test]
    fn two_servers_cannot_share_it() {
        let root = tempfile::tempdir().expect("a directory");
        let _first = reopen(root.path());
        let error = StateDir::open(root.path()).expect_err("in use");
        assert!(matches!(error, StateError::InUse(_)), "{error}");
        assert!(error.to_string().contains("TICKETING_STATE_DIR"));
    }

    #[test]
    fn a_damaged_file_stops_the_start() {
        let root = tempfile::tempdir().expect("a directory");
        let good = render(PROMISE, Mark::Running);
        assert!(parse(&good).is_some());
        let cuts = (0..good.len()).map(|end| good.as_bytes()[..end].to_owned());
        let others = [good.replace("state 1", "state 2"), format!("{good}more\n"), "\n".into()];
        let no_text = [good.as_bytes(), b"\xff\n"].concat();
        for content in cuts.chain(others.map(Into::into)).chain([no_text]) {
            fs::write(root.path().join(FILE_NAME), &content).expect("written");
            let error = StateDir::open(root.path()).expect_err("damaged");
            assert!(matches!(error, StateError::Content(_)), "{error}");
            assert!(error.to_string().contains("remove the file"));
        }
    }
}
