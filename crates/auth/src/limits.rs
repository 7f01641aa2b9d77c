//! Bounds of tokens, with their units.

/// Shortest token. Protocol, "Connection".
pub const TOKEN_SIZE_BYTES_MIN: usize = 16;
/// Longest token: what a file line or a variable may hold, far above any useful secret.
pub const TOKEN_SIZE_BYTES_MAX: usize = 4096;
/// Most tokens accepted at once. A rotation needs two; every one costs a hash per handshake.
pub const TOKEN_COUNT_MAX: usize = 16;
/// Largest token file: the longest tokens, each with its newline.
pub(crate) const TOKEN_FILE_SIZE_BYTES_MAX: usize = TOKEN_COUNT_MAX * (TOKEN_SIZE_BYTES_MAX + 1);
