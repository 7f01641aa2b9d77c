//! Replays `vectors/` against the codec, and counts that every edge has a vector.

mod coverage;
mod handshake;
mod load;
mod replies;
mod requests;
