//! The server that the judge plays for one scenario: listeners and the connections made to them.

use crate::clock;
use crate::conn::{Conn, Cut, Stream, first_readable};
use crate::failure::{Check, Failure, fail};
use crate::frame::{Identity, Request, favourable};
use crate::limits::{QUIET_TIME, STEP_LIMIT};
use socket2::SockRef;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;
use ticketing_test_ports::free_address;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Segments on connections with little room: what the internet always allows.
const SEGMENT_SIZE_BYTES: u32 = 536;
/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 128;

/// One played server, or cluster: a listener for each slot (one in single mode).
pub struct Wire {
    /// Whom it plays.
    pub identity: Identity,
    /// Every connection made so far, open or not; requests name them by index.
    pub conns: Vec<Conn>,
    /// Connections that the client closed after the hello, without a byte.
    given_up: usize,
    slots: Vec<Slot>,
    tls: Option<TlsAcceptor>,
}

struct Slot {
    /// `None` while its port refuses connections.
    listener: Option<TcpListener>,
    address: SocketAddr,
    /// Whether new connections are left alone in the backlog.
    paused: bool,
}

/// Something that happened on the wire.
#[derive(Debug)]
pub enum Event {
    /// A connection was made and shook hands.
    Opened(usize),
    /// A whole request came.
    Request(Request),
    /// The client closed that connection.
    Closed(usize),
}

enum Raw {
    Accepted(usize, TcpStream),
    Event(Event),
}

impl Wire {
    /// Listens on free loopback ports: one in single mode, one for each slot of a cluster.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn listen(identity: Identity) -> Check<Self> {
        Self::listen_on(identity, Ipv4Addr::LOCALHOST.into(), None)
    }

    /// The same on another loopback address, or with little room for bytes that are not read.
    ///
    /// # Errors
    /// The operating system's.
    pub fn listen_on(identity: Identity, host: IpAddr, buffer_size: Option<u32>) -> Check<Self> {
        let count = identity.cluster.map_or(1, |cluster| usize::from(cluster.voter_count));
        let mut slots = Vec::new();
        for _ in 0..count {
            let socket = if host.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A scenario may close the listener and open it again at the same address; and a client
            // that outlives its scenario must not reach the server of another one.
            socket.set_reuseaddr(true)?;
            if let Some(size) = buffer_size {
                socket.set_recv_buffer_size(size)?;
                // The sender's room grows with the size of segments, which loopback has large.
                SockRef::from(&socket).set_tcp_mss(SEGMENT_SIZE_BYTES)?;
            }
            socket.bind(free_address(host)?)?;
            let listener = socket.listen(BACKLOG)?;
            let address = listener.local_addr()?;
            slots.push(Slot { listener: Some(listener), address, paused: false });
        }
        Ok(Self { identity, conns: Vec::new(), given_up: 0, slots, tls: None })
    }

    /// The same, behind TLS.
    #[must_use]
    pub fn with_tls(self, tls: TlsAcceptor) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Its addresses in slot order, as a driver takes them.
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> =
            self.slots.iter().map(|slot| slot.address.to_string()).collect();
        addresses.join(",")
    }

    /// Port of a slot.
    pub fn port(&self, slot: usize) -> u16 {
        self.slots[slot].address.port()
    }

    /// From now on, connections to the slot are refused by the operating system.
    pub fn refuse(&mut self, slot: usize) {
        self.slots[slot].listener = None;
    }

    /// From now on, connections to the slot are accepted again.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn listen_again(&mut self, slot: usize) -> Check {
        self.slots[slot].listener = Some(TcpListener::bind(self.slots[slot].address).await?);
        Ok(())
    }

    /// From now on, connections to the slot get no hello; or get one again.
    pub fn pause(&mut self, slot: usize, paused: bool) {
        self.slots[slot].paused = paused;
    }

    /// The next connection to `slot`, before any byte of it (after the handshake of TLS, if any).
    ///
    /// # Errors
    /// When none comes within the step limit, or TLS fails.
    pub async fn accept(&mut self, slot: usize) -> Check<Conn> {
        self.accept_within(slot, STEP_LIMIT).await
    }

    /// The same within another limit.
    ///
    /// # Errors
    /// When none comes, or TLS fails.
    pub async fn accept_within(&mut self, slot: usize, limit: Duration) -> Check<Conn> {
        let expected = format!("a connection to slot {slot}");
        let Some(listener) = &self.slots[slot].listener else {
            return fail(expected, "the judge refuses them");
        };
        match tokio::time::timeout(limit, listener.accept()).await {
            Ok(accepted) => self.wrap(slot, accepted?.0).await,
            Err(_) => fail(expected, format!("none within {limit:?}")),
        }
    }

    async fn wrap(&self, slot: usize, tcp: TcpStream) -> Check<Conn> {
        tcp.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Stream::Plain(tcp),
            Some(acceptor) => match tokio::time::timeout(STEP_LIMIT, acceptor.accept(tcp)).await {
                Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                Ok(Err(error)) => return fail("a TLS handshake", error.to_string()),
                Err(_) => return fail("a TLS handshake", "silence"),
            },
        };
        Ok(Conn::new(slot, stream))
    }

    /// Takes a connection that shook hands among those served.
    pub fn adopt(&mut self, conn: Conn) -> usize {
        self.conns.push(conn);
        self.conns.len() - 1
    }

    /// The next event, or `None` when there is none within `limit`.
    ///
    /// # Errors
    /// A handshake or frame that is wrong in itself.
    pub async fn event_within(&mut self, limit: Duration) -> Check<Option<Event>> {
        let end = clock::now() + limit;
        loop {
            let raw = poll_fn(|cx| self.poll_raw(cx));
            match tokio::time::timeout_at(end.into(), raw).await {
                Err(_) => return Ok(None),
                Ok(Err(failure)) => return Err(failure),
                Ok(Ok(Raw::Event(event))) => return Ok(Some(event)),
                Ok(Ok(Raw::Accepted(slot, tcp))) => {
                    let mut conn = self.wrap(slot, tcp).await?;
                    if conn.greet(&self.identity).await? {
                        return Ok(Some(Event::Opened(self.adopt(conn))));
                    }
                    self.given_up += 1;
                }
            }
        }
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Check<Raw>> {
        for (index, conn) in self.conns.iter_mut().enumerate() {
            if let Poll::Ready(read) = conn.poll_request(cx, index) {
                return Poll::Ready(read.map(|request| {
                    Raw::Event(request.map_or(Event::Closed(index), Event::Request))
                }));
            }
        }
        for (index, slot) in self.slots.iter().enumerate() {
            if let (Some(listener), false) = (&slot.listener, slot.paused)
                && let Poll::Ready(accepted) = listener.poll_accept(cx)
            {
                let accepted = accepted.map_err(Failure::from);
                return Poll::Ready(accepted.map(|(tcp, _)| Raw::Accepted(index, tcp)));
            }
        }
        Poll::Pending
    }

    /// The next request on any connection, within the step limit.
    ///
    /// # Errors
    /// When none comes.
    pub async fn request(&mut self) -> Check<Request> {
        self.request_within(STEP_LIMIT).await
    }

    /// The same within another limit. New connections are served meanwhile.
    ///
    /// # Errors
    /// When none comes.
    pub async fn request_within(&mut self, limit: Duration) -> Check<Request> {
        let end = clock::now() + limit;
        loop {
            let left = end.saturating_duration_since(clock::now());
            match self.event_within(left).await? {
                Some(Event::Request(request)) => return Ok(request),
                Some(Event::Opened(_) | Event::Closed(_)) => {}
                None => return fail("a request", format!("none within {limit:?}")),
            }
        }
    }

    /// The next request, which must have that opcode.
    ///
    /// # Errors
    /// When none comes, or another.
    pub async fn request_of(&mut self, op: char) -> Check<Request> {
        let request = self.request().await?;
        if request.op() == op {
            return Ok(request);
        }
        fail(format!("a request `{op}`"), request.describe())
    }

    /// Sends a frame on a connection.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn reply(&mut self, conn: usize, bytes: &[u8]) -> Check {
        self.conns[conn].write(bytes).await
    }

    /// Answers a request well: granted with `token`, or released.
    ///
    /// # Errors
    /// When its connection is gone.
    pub async fn favour(&mut self, request: &Request, token: u64) -> Check {
        self.reply(request.conn, &favourable(request, token)).await
    }

    /// Waits until `count` connections are open.
    ///
    /// # Errors
    /// When they are not made, or requests come meanwhile.
    pub async fn connected(&mut self, count: usize) -> Check {
        while self.open_count() < count {
            let expected = format!(
                "{count} connections, {} made, {} closed by the client after the hello",
                self.open_count(),
                self.given_up
            );
            match self.event_within(STEP_LIMIT).await? {
                Some(Event::Opened(_) | Event::Closed(_)) => {}
                Some(Event::Request(request)) => return fail(expected, request.describe()),
                None => return fail(expected, format!("none within {STEP_LIMIT:?}")),
            }
        }
        Ok(())
    }

    /// How many connections are open.
    pub fn open_count(&self) -> usize {
        self.conns.iter().filter(|conn| conn.is_open()).count()
    }

    /// Waits until the client has closed that connection.
    ///
    /// # Errors
    /// When it does not, or sends requests meanwhile.
    pub async fn closed(&mut self, conn: usize) -> Check {
        let expected = format!("the client closes connection {conn}");
        let end = clock::now() + STEP_LIMIT;
        while self.conns[conn].is_open() {
            let left = end.saturating_duration_since(clock::now());
            match self.event_within(left).await? {
                Some(Event::Opened(_) | Event::Closed(_)) => {}
                Some(Event::Request(request)) => return fail(expected, request.describe()),
                None => return fail(expected, format!("still open after {STEP_LIMIT:?}")),
            }
        }
        Ok(())
    }

    /// Passes when no request comes for a while. New connections are served meanwhile.
    ///
    /// # Errors
    /// With the request.
    pub async fn quiet(&mut self) -> Check {
        self.quiet_for(QUIET_TIME).await
    }

    /// The same for another time.
    ///
    /// # Errors
    /// With the request.
    pub async fn quiet_for(&mut self, time: Duration) -> Check {
        let end = clock::now() + time;
        loop {
            let left = end.saturating_duration_since(clock::now());
            match self.event_within(left).await? {
                Some(Event::Request(request)) => return fail("no request", request.describe()),
                Some(Event::Opened(_) | Event::Closed(_)) => {}
                None => return Ok(()),
            }
        }
    }

    /// Waits for the first byte of a request without taking any; gives the connection.
    ///
    /// # Errors
    /// When none comes. Only for plain connections.
    pub async fn readable(&mut self) -> Check<usize> {
        match tokio::time::timeout(STEP_LIMIT, first_readable(&self.conns)).await {
            Ok(conn) => Ok(conn),
            Err(_) => fail("a request", format!("none within {STEP_LIMIT:?}")),
        }
    }

    /// Ends a connection.
    pub fn cut(&mut self, conn: usize, how: Cut) {
        self.conns[conn].cut(how);
    }

    /// Ends every connection.
    pub fn cut_all(&mut self) {
        for conn in &mut self.conns {
            conn.cut(Cut::Close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::acquire;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What the judge makes of a client that answers the hello with `proof`, or the right one,
    /// and then sends `bytes`.
    async fn judged(proof: Option<[u8; 32]>, bytes: Vec<u8>) -> Check<Request> {
        let mut wire = Wire::listen(Identity::single()).await.expect("listens");
        let address = wire.addresses();
        let identity = wire.identity.clone();
        let client = tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("connects");
            let mut hello = [0; 28];
            stream.read_exact(&mut hello).await.expect("a hello");
            let nonce = std::array::from_fn(|at| hello[12 + at]);
            let right = identity.proof(0, &nonce);
            let proof = proof.map_or(right, |proof| proof.to_vec());
            stream.write_all(&[proof, bytes].concat()).await.expect("sent");
            // Open until the judge has seen it all.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let seen = wire.request().await;
        client.abort();
        seen
    }

    #[tokio::test]
    async fn a_right_client_is_heard() {
        let request = judged(None, acquire(1, 2, 3, b"k")).await.expect("a request");
        assert_eq!((request.op(), request.id(), request.wait()), ('A', 1, 2));
    }

    #[tokio::test]
    async fn a_wrong_proof_is_named() {
        let failure = judged(Some([7; 32]), Vec::new()).await.expect_err("wrong");
        assert!(failure.expected.starts_with("proof: "), "{failure}");
        assert!(failure.seen.starts_with("0707"), "{failure}");
    }

    #[tokio::test]
    async fn a_request_id_out_of_turn_is_named() {
        let failure = judged(None, acquire(2, 0, 1, b"k")).await.expect_err("out of turn");
        assert!(failure.expected.ends_with(": 1"), "{failure}");
        assert_eq!(failure.seen, "2");
    }

    #[tokio::test]
    async fn what_is_no_request_is_named() {
        let failure = judged(None, b"XYZ".to_vec()).await.expect_err("no request");
        assert_eq!(failure.seen, "bytes 58595a");
    }
}
