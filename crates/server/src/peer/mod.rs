//! The peer protocol: what nodes say to each other, as values and as bytes.

pub(crate) mod assembly;
pub(crate) mod convert;
#[cfg(any(test, fuzzing))]
pub(crate) mod exercise;
pub(crate) mod hello;
pub(crate) mod limits;
pub(crate) mod message;
mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
