//! Clusters of real processes: identities, status, broken frames, lost marks, TLS, strangers.

mod commands;
mod endings;
mod mark;
mod peer_port;
mod rig;
mod tls;
