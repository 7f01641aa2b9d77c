//! Where the repository is.

use std::path::PathBuf;

/// The repository's root, from where this crate was built.
pub(crate) fn repository() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}
