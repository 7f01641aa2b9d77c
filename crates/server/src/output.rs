//! What a command prints.

use std::io::{self, Write};

/// Prints all of it.
///
/// # Errors
/// A full disk, or a reader that has gone: whoever asked did not get the answer.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| {
        format!("cannot write to standard output: {error}; check where it goes and run this again")
    })
}
