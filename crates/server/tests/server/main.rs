//! The server as its clients and its operator meet it.

mod process;
mod sockets;
mod support;
