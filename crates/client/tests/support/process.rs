//! Scripted servers on real sockets, for tests of whole processes and of TLS.

use super::{Peer, Request};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use ticketing_wire_codec::Reply;
use tokio::net::TcpListener;

/// What the server does about a request.
pub(crate) enum Act {
    /// Closes the connection.
    Cut,
    /// Grants with that token, or releases.
    Grant(u64),
    Nothing,
    Reply(Reply),
}

/// A single server without a token. It ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) async fn start(script: fn(&Request) -> Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    let mut peer = Peer::accept(stream).await;
                    while let Some(request) = peer.next().await {
                        seen.lock().expect("no panic").push(request.clone());
                        match script(&request) {
                            Act::Cut => return,
                            Act::Grant(token) if request.kind.is_acquire() => {
                                peer.reply(request.granted(token)).await;
                            }
                            Act::Grant(_) => peer.reply(request.released()).await,
                            Act::Nothing => {}
                            Act::Reply(reply) => peer.reply(reply).await,
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// Everything it was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// The opcodes of everything it was asked so far.
    pub(crate) fn opcodes(&self) -> String {
        self.requests().iter().map(|request| char::from(request.kind.opcode())).collect()
    }
}
