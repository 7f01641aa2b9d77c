//! The threads that a server runs on.

use std::io;
use tokio::runtime::{Builder, Runtime};

/// A runtime with that many I/O threads. One is the caller's own and needs no scheduler between
/// threads; several are named `io`.
///
/// # Errors
/// What the system says about another thread or descriptor.
pub fn runtime(thread_count: usize) -> io::Result<Runtime> {
    if thread_count == 1 {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread()
            .worker_threads(thread_count)
            .thread_name("io")
            .enable_all()
            .build()
    }
}
