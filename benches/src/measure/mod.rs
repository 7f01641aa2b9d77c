//! One measurement each: what is done to a server, and the figures that come out.

pub mod hold;
pub mod idle;
pub mod join;
pub mod lateness;
pub mod meter;
pub mod throughput;
