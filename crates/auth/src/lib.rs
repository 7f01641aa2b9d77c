//! Client proof, peer proof, token and identity rules. Knows no socket, no lock state and no clock.
//!
//! The message under the proof comes from the caller as bytes; its layout belongs to the codec.
#![forbid(unsafe_code)]

mod cluster_id;
mod error;
mod identity;
mod limits;
mod peer;
mod token;
mod token_set;

pub use cluster_id::{BOOTSTRAP_WINDOW_SECONDS, CLUSTER_ID_SIZE_BYTES, ClusterId, ClusterIdFault};
pub use error::{TokenError, TokenFault};
pub use identity::SINGLE_FINGERPRINT;
pub use limits::{TOKEN_COUNT_MAX, TOKEN_SIZE_BYTES_MAX, TOKEN_SIZE_BYTES_MIN};
pub use peer::{PEER_PROOF_SIZE_BYTES, PeerSide, PeerTokens};
pub use token::{ClientToken, PROOF_SIZE_BYTES};
pub use token_set::TokenSet;
