//! A setting that nothing but its reader may see.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A token as it was given. Its bytes show in no message.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The token.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
