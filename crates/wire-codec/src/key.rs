//! The key rule and the key-set rule. Protocol, "Request frames".

use crate::error::ErrorCode;
use crate::limits::{KEY_SIZE_BYTES_MAX, KEY_SIZE_BYTES_MIN, SET_KEY_COUNT_MAX, SET_KEY_COUNT_MIN};

/// Checks one key: 1–128 bytes of valid UTF-8 without space, LF or CR.
///
/// # Errors
/// [`ErrorCode::BadKey`].
pub fn check_key(key: &[u8]) -> Result<(), ErrorCode> {
    let size_fits = (KEY_SIZE_BYTES_MIN..=KEY_SIZE_BYTES_MAX).contains(&key.len());
    // Without an early exit, so that the compiler looks at many bytes at once. ASCII, which most
    // keys are, is valid UTF-8.
    let is_forbidden = key.iter().fold(false, |is_any, byte| is_any | is_forbidden(*byte));
    let is_utf8 = key.is_ascii() || core::str::from_utf8(key).is_ok();
    if size_fits && !is_forbidden && is_utf8 { Ok(()) } else { Err(ErrorCode::BadKey) }
}

/// Checks a set: every key by itself first, then 2–16 of them, strictly ascending bytewise.
///
/// # Errors
/// [`ErrorCode::BadKey`], then [`ErrorCode::BadKeySet`].
pub fn check_key_set<'a>(
    keys: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Result<(), ErrorCode> {
    for key in keys.clone() {
        check_key(key)?;
    }
    let count_fits = (SET_KEY_COUNT_MIN..=SET_KEY_COUNT_MAX).contains(&keys.len());
    if count_fits && keys.is_sorted_by(|left, right| left < right) {
        Ok(())
    } else {
        Err(ErrorCode::BadKeySet)
    }
}

const fn is_forbidden(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r')
}
