//! Exit codes of its own, distinct from each other and as `sysexits.h` means them.

use std::fmt::Display;
use std::process::{ExitCode, ExitStatus};
use ticketing_client::Error;

/// An exit code, with what the help says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u8);

/// Bad flags, variables or values.
pub(crate) const USAGE: Code = Code(64);
/// The server refused the request's values.
pub(crate) const REJECTED: Code = Code(65);
/// No server, or no leader, could be reached.
pub(crate) const UNREACHABLE: Code = Code(69);
/// Something went wrong here.
pub(crate) const INTERNAL: Code = Code(70);
/// Not acquired in time, or not with enough time left.
pub(crate) const NOT_ACQUIRED: Code = Code(75);
/// Unknown whether the lock was granted.
pub(crate) const INDETERMINATE: Code = Code(76);
/// The server refused the token.
pub(crate) const UNAUTHORIZED: Code = Code(77);
/// The command could not be started.
pub(crate) const CANNOT_START: Code = Code(126);
/// The command was not found.
pub(crate) const NOT_FOUND: Code = Code(127);
/// Added to the number of the signal that ended the command.
const SIGNAL_BASE: i32 = 128;

/// The part of the help that lists them.
pub(crate) const HELP: &str = "\
Exit codes:
  0-255  of the command; 128 + n when signal n ended it
  64     bad usage: a flag, a variable or a value is wrong
  65     the server refused the request's values
  69     no server could be reached, or none grants: the cluster has no leader, or
         a restarted server waits for its predecessor's leases to end
  70     something went wrong on this machine
  75     not acquired in time: the turn did not come within --wait, came too late
         for --budget, or the server was at capacity
  76     indeterminate: no answer came, so the command was not run; at worst the
         lock is held until its lease ends
  77     the server refused the token, or its cluster has another fingerprint
  126    the command could not be started
  127    the command was not found
Messages of ticketing itself begin with \"ticketing:\", on standard error.";

/// Why the program ends without the command's exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) problem: String,
}

impl Failure {
    pub(crate) fn new(code: Code, problem: impl Display) -> Self {
        Self { code, problem: problem.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::InvalidInput { .. } => USAGE,
            Error::Rejected(_) => REJECTED,
            Error::NotConnected { .. } | Error::NoLeader => UNREACHABLE,
            Error::Timeout | Error::Busy | Error::InsufficientLease => NOT_ACQUIRED,
            Error::Indeterminate => INDETERMINATE,
            Error::Unauthorized => UNAUTHORIZED,
            _ => INTERNAL,
        };
        Self::new(code, error)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// The exit code that a shell gives for the signal.
pub(crate) fn of_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(SIGNAL_BASE + signal).unwrap_or(u8::MAX))
}

/// The exit code that a shell gives for a command that ended so.
pub(crate) fn of_status(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => of_signal(signal),
        (None, None) => INTERNAL.into(),
    }
}
