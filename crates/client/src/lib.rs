//! Client for the Ticketing lock server: acquire a key, do the work, release it.
//!
//! ```no_run
//! use std::time::Duration;
//! use ticketing_client::{AcquireOptions, Broker};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), ticketing_client::Error> {
//!     let broker = Broker::builder().address("127.0.0.1:5225").build()?;
//!     let options = AcquireOptions::new().lease(Duration::from_secs(60));
//!     let ticket = broker.acquire("order-1234", options).await?;
//!     println!("held until {:?} under token {}", ticket.remaining(), ticket.token());
//!     // The work. Give ticket.token() to the database with every write.
//!     ticket.release().await?;
//!     broker.close().await;
//!     Ok(())
//! }
//! ```
//!
//! A lock is held until it is released or its *lease* ends, whichever comes first. The holder may
//! act on it until [`Ticket::valid_before`]. A holder that is paused longer than that cannot know
//! it, so the protected resource has to check the *fencing token*: it keeps the highest token it
//! has seen and refuses a lower one, in the same transaction as the write.
//!
//! All calls are pipelined over a few persistent connections and never block a thread. Dropping
//! any future of this crate is safe.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod acquire;
mod address;
mod backoff;
mod broker;
mod builder;
mod call;
mod clock;
mod connect;
mod domain;
mod error;
mod keys;
mod limits;
mod options;
mod pool;
mod release;
mod session;
mod shared;
mod sync;
#[cfg(test)]
mod tests;
mod ticket;
mod tls;
mod worker;

pub use broker::Broker;
pub use builder::BrokerBuilder;
pub use domain::{Domain, Fingerprint};
pub use error::Error;
pub use limits::{PENDING_COUNT_DEFAULT, PENDING_COUNT_MAX};
pub use options::AcquireOptions;
pub use release::ReleaseOutcome;
pub use ticket::{Ticket, TicketSet};
pub use ticketing_wire_codec::ErrorCode;
pub use tls::Tls;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
