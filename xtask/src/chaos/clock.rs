//! The only place of the scenarios that reads a clock.

use std::time::Instant;

/// Now.
#[expect(clippy::disallowed_methods, reason = "this is clock.rs")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
