//! Checked keys: one, or a set. Shared between a call and its ticket without copying.

use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use ticketing_wire_codec::limits::{KEY_SIZE_BYTES_MAX, SET_KEY_COUNT_MAX};
use ticketing_wire_codec::{check_key, check_key_set};

/// One key, or a set in wire order.
#[derive(Clone)]
pub(crate) enum Keys {
    /// A set that collapses to one key is one key. Protocol, "Request frames".
    One(Arc<str>),
    Set(Arc<[Box<str>]>),
}

impl Keys {
    /// Checks one key by the server's rule.
    pub(crate) fn one(key: &[u8]) -> Result<Self, Error> {
        checked(key).map(|key| Self::One(key.into()))
    }

    /// Sorts, removes duplicates, and checks by the server's rules.
    pub(crate) fn set(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, Error> {
        let mut set = Vec::new();
        for key in keys {
            set.push(Box::<str>::from(checked(key.as_ref())?));
            // Duplicates are no fault, but an endless iterator may not take endless memory.
            if set.len() > 2 * SET_KEY_COUNT_MAX {
                set.sort_unstable();
                set.dedup();
                check_count(set.len())?;
            }
        }
        // `str` is ordered by its bytes, as the protocol is.
        set.sort_unstable();
        set.dedup();
        check_count(set.len())?;
        if let [key] = &*set {
            return Ok(Self::One(Arc::from(&**key)));
        }
        let keys = Self::Set(set.into());
        debug_assert!(check_key_set(keys.bytes()).is_ok());
        Ok(keys)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        match self {
            Self::One(key) => Either::One(std::iter::once(&**key)),
            Self::Set(keys) => Either::Set(keys.iter()),
        }
    }

    pub(crate) fn bytes(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.iter().map(str::as_bytes)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[derive(Clone)]
enum Either<'a> {
    One(std::iter::Once<&'a str>),
    Set(std::slice::Iter<'a, Box<str>>),
}

impl<'a> Iterator for Either<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        match self {
            Self::One(key) => key.next(),
            Self::Set(keys) => keys.next().map(|key| &**key),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::One(key) => key.size_hint(),
            Self::Set(keys) => keys.size_hint(),
        }
    }
}

impl ExactSizeIterator for Either<'_> {}

fn checked(key: &[u8]) -> Result<&str, Error> {
    let text = str::from_utf8(key).ok().filter(|_| check_key(key).is_ok());
    text.ok_or_else(|| {
        let start = String::from_utf8_lossy(&key[..key.len().min(KEY_SIZE_BYTES_MAX)]);
        Error::invalid(format!(
            "key {start:?} ({} bytes): a key is 1 to 128 bytes of UTF-8 without space, LF and CR",
            key.len()
        ))
    })
}

fn check_count(count: usize) -> Result<(), Error> {
    if (1..=SET_KEY_COUNT_MAX).contains(&count) {
        Ok(())
    } else {
        Err(Error::invalid(format!("a key set of {count} or more: give 1 to 16 distinct keys")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &[&str]) -> Result<Vec<String>, Error> {
        Keys::set(keys).map(|keys| keys.iter().map(str::to_owned).collect())
    }

    #[test]
    fn sets_are_sorted_bytewise_without_duplicates() {
        assert_eq!(set(&["b", "a", "b", "B"]), Ok(vec!["B".into(), "a".into(), "b".into()]));
        assert!(matches!(Keys::set(["a", "a"]), Ok(Keys::One(key)) if &*key == "a"));
    }

    #[test]
    fn set_sizes_are_checked_at_both_edges() {
        let names: Vec<String> = (0..17).map(|index| format!("key-{index:02}")).collect();
        assert!(Keys::set(&names[..16]).is_ok());
        assert!(Keys::set(&names).is_err());
        assert!(Keys::set(Vec::<String>::new()).is_err());
        assert!(Keys::set(std::iter::repeat_n("same", 10_000)).is_ok());
        assert!(Keys::set((0..).map(|index: u64| index.to_string())).is_err());
    }

    #[test]
    fn keys_follow_the_key_rule() {
        for key in [&b"k"[..], "\u{e9}\t\0".as_bytes(), &[b'x'; 128]] {
            assert!(Keys::one(key).is_ok());
        }
        for key in [&b""[..], b"a b", b"a\n", b"\r", b"\xff", &[b'x'; 129]] {
            let error = Keys::one(key).expect_err("refused").to_string();
            assert!(error.contains("1 to 128 bytes"), "{error}");
            assert!(Keys::set([&b"fine"[..], key]).is_err());
        }
    }
}
