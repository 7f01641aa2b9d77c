//! The one judge of all clients: it plays the server over real loopback sockets, drives each
//! client through its driver program, and compares both sides with the protocol and with
//! `clients/BEHAVIOUR.md`. The driver contract is in `DRIVER.md`.

pub mod bench;
pub mod clock;
pub mod cluster_process;
pub mod conn;
pub mod delay;
pub mod driver;
pub mod failure;
pub mod frame;
pub mod groups;
pub mod limits;
pub mod live;
pub mod memory;
pub mod readme;
pub mod registry;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod server_process;
pub mod shell;
pub mod tls;
pub mod vectors;
pub mod wire;
