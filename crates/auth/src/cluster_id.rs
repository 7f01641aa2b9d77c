//! Which cluster, and therefore which fencing domain.

use std::fmt;
use std::str::FromStr;

/// Size of a cluster id without its check bytes.
pub const CLUSTER_ID_SIZE_BYTES: usize = 29;
/// How long after its creation a cluster may be started for the first time, unless it was created
/// with another window.
pub const BOOTSTRAP_WINDOW_SECONDS: u32 = 15 * 60;

const VERSION: u8 = 1;
/// Bytes at the end of the text that catch a typing error.
const CHECK_SIZE_BYTES: usize = 4;
const FINGERPRINT_CONTEXT: &str = "ticketing cluster identity v1";
const CHECK_CONTEXT: &str = "ticketing cluster id check v1";

/// A cluster's identity: random, and when it was made. Layout: version u8, random 16 bytes,
/// creation as Unix seconds u64, bootstrap window in seconds u32, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterId([u8; CLUSTER_ID_SIZE_BYTES]);

/// Text that is no cluster id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterIdFault {
    /// A character is wrong, or one is missing.
    Check,
    /// Not the right number of lowercase hex digits.
    Form,
    /// Made by another version.
    Version,
}

impl ClusterId {
    /// A new identity.
    pub fn new(random: [u8; 16], created_unix_seconds: u64, window_seconds: u32) -> Self {
        let mut bytes = [0; CLUSTER_ID_SIZE_BYTES];
        bytes[0] = VERSION;
        bytes[1..17].copy_from_slice(&random);
        bytes[17..25].copy_from_slice(&created_unix_seconds.to_be_bytes());
        bytes[25..].copy_from_slice(&window_seconds.to_be_bytes());
        Self(bytes)
    }

    /// What clients are configured with and prove against: BLAKE3 `derive_key` over the id and the
    /// number of voters.
    pub fn fingerprint(&self, voter_count: u8) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(FINGERPRINT_CONTEXT);
        hasher.update(&self.0).update(&[voter_count]);
        *hasher.finalize().as_bytes()
    }

    /// When it was made.
    pub fn created_unix_seconds(&self) -> u64 {
        u64::from_be_bytes(*self.0[17..].first_chunk().expect("8 of 12 bytes"))
    }

    /// How long after that the cluster may be started for the first time.
    pub fn window_seconds(&self) -> u32 {
        u32::from_be_bytes(*self.0[25..].first_chunk().expect("4 bytes"))
    }

    /// Whether the cluster may be started for the first time now. A clock that is behind by up to
    /// the window's length is taken for skew.
    pub fn may_bootstrap(&self, now_unix_seconds: u64) -> bool {
        let window = u64::from(self.window_seconds());
        now_unix_seconds.abs_diff(self.created_unix_seconds()) <= window
    }

    fn check(&self) -> [u8; CHECK_SIZE_BYTES] {
        let hash = blake3::derive_key(CHECK_CONTEXT, &self.0);
        *hash.first_chunk().expect("4 of 32 bytes")
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().chain(&self.check()).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ClusterId {
    type Err = ClusterIdFault;

    fn from_str(text: &str) -> Result<Self, ClusterIdFault> {
        let digits = text.as_bytes();
        let is_form = digits.len() == 2 * (CLUSTER_ID_SIZE_BYTES + CHECK_SIZE_BYTES)
            && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !is_form {
            return Err(ClusterIdFault::Form);
        }
        let mut bytes = [0; CLUSTER_ID_SIZE_BYTES + CHECK_SIZE_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| ClusterIdFault::Form)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ClusterIdFault::Form)?;
        }
        let (id, check) = bytes.split_at(CLUSTER_ID_SIZE_BYTES);
        let id = Self(*id.first_chunk().expect("split there"));
        if id.check() != check {
            return Err(ClusterIdFault::Check);
        }
        if id.0[0] != VERSION {
            return Err(ClusterIdFault::Version);
        }
        Ok(id)
    }
}

impl fmt::Display for ClusterIdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Check => "a digit is wrong or two are swapped; copy it again",
            Self::Form => {
                "not a cluster id (66 lowercase hex digits); \
                 take one from `ticketing-server cluster new`"
            }
            Self::Version => {
                "made by another version of ticketing-server; use that version, or a new identity"
            }
        })
    }
}

impl std::error::Error for ClusterIdFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ClusterId {
        ClusterId::new([7; 16], 1_900_000_000, 900)
    }

    #[test]
    fn text_round_trips_and_a_typing_error_is_noticed() {
        let text = id().to_string();
        assert_eq!(text.len(), 66);
        assert_eq!(text.parse(), Ok(id()));
        for at in 0..text.len() {
            let mut typo = text.clone().into_bytes();
            typo[at] = if typo[at] == b'0' { b'1' } else { b'0' };
            let typo = String::from_utf8(typo).expect("digits");
            assert_eq!(typo.parse::<ClusterId>(), Err(ClusterIdFault::Check), "{typo}");
        }
        for bad in ["", "00", &text.to_uppercase(), &text[1..]] {
            assert_eq!(bad.parse::<ClusterId>(), Err(ClusterIdFault::Form), "{bad}");
        }
    }

    #[test]
    fn the_fingerprint_depends_on_every_part() {
        let reference = id().fingerprint(3);
        assert_ne!(reference, id().fingerprint(5));
        assert_ne!(reference, ClusterId::new([8; 16], 1_900_000_000, 900).fingerprint(3));
        assert_ne!(reference, ClusterId::new([7; 16], 1_900_000_001, 900).fingerprint(3));
        assert_eq!(reference, id().fingerprint(3));
    }

    #[test]
    fn the_window_has_two_ends() {
        let created = id().created_unix_seconds();
        assert!(id().may_bootstrap(created));
        assert!(id().may_bootstrap(created + 900));
        assert!(!id().may_bootstrap(created + 901));
        assert!(id().may_bootstrap(created - 900));
        assert!(!id().may_bootstrap(created - 901));
    }
}
