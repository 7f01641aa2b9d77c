//! The only file that reads a clock. Tokio's, so that tests can pause it.

pub(crate) use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}
