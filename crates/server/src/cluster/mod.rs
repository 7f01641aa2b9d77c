//! One node of a cluster, without I/O.

mod batch;
pub(crate) mod engine;
pub(crate) mod life;
mod replica;
pub(crate) mod replicated;
mod routing;
#[cfg(test)]
mod simulation;
