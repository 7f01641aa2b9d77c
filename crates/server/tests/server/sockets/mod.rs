//! The server over real sockets, in this process. What only time decides is tested in the engine
//! with injected time; here each rule is seen once from a client's side.

mod backpressure;
mod chaos;
mod churn;
mod endings;
mod handshake;
mod hang_up;
mod requests;
mod rig;
mod tls;
mod vectors;
