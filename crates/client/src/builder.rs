//! Settings of a broker, checked as a whole.

use crate::address::Address;
use crate::broker::Broker;
use crate::connect::{Identity, Target};
use crate::domain::{Domain, Fingerprint};
use crate::error::Error;
use crate::limits::{
    PENDING_COUNT_DEFAULT, PENDING_COUNT_MAX, RELEASE_COUNT_MAX, SINGLE_CONNECTION_COUNT,
};
use crate::pool::Pool;
use crate::shared::{Anchor, Shared};
use crate::tls::{self, Tls, TlsTarget};
use crate::worker::Worker;
use std::path::PathBuf;
use std::sync::Arc;
use ticketing_auth::{ClientToken, SINGLE_FINGERPRINT, TokenFault, TokenSet};
use ticketing_wire_codec::{Mode, ReplyRules, Slot};
use tokio::runtime::Handle;

/// Requests that can stand in one connection's queue: all acquires, and every attempt that all
/// releases can make in their window. So a full queue means a connection that is stuck.
const QUEUE_MARGIN: usize = 4 * RELEASE_COUNT_MAX;

/// Settings of a [`Broker`].
///
/// ```no_run
/// use ticketing_client::{Broker, Error, Tls};
///
/// # async fn example() -> Result<(), Error> {
/// let broker = Broker::builder()
///     .addresses(["a.example:5225", "b.example:5225", "c.example:5225"])
///     .fingerprint("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".parse()?)
///     .token_file("/etc/ticketing/token")
///     .tls(Tls::SystemRoots)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until the broker is built"]
pub struct BrokerBuilder {
    addresses: Vec<String>,
    fingerprint: Option<Fingerprint>,
    token: Option<TokenSource>,
    tls: Tls,
    tls_server_name: Option<String>,
    pending_count: usize,
    #[cfg(test)]
    pub(crate) memory: Option<crate::tests::MemoryDialer>,
}

/// Where the token comes from. Its bytes are not kept.
#[derive(Clone, Debug)]
enum TokenSource {
    File(PathBuf),
    Value(Result<ClientToken, TokenFault>),
}

impl BrokerBuilder {
    pub(crate) fn new() -> Self {
        Self {
            addresses: Vec::new(),
            fingerprint: None,
            token: None,
            tls: Tls::Off,
            tls_server_name: None,
            pending_count: PENDING_COUNT_DEFAULT,
            #[cfg(test)]
            memory: None,
        }
    }

    /// Adds a server's address: `host:port`, IPv6 as `[addr]:port`.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Adds addresses: 1 for a single server, 3 or 5 in slot order for a cluster.
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.addresses.extend(addresses.into_iter().map(Into::into));
        self
    }

    /// The cluster's identity. Required for a cluster, and only for one.
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// The token that the server asks for: 16 to 4096 bytes. Without one, every address must be a
    /// loopback IP address or `localhost`.
    pub fn token(mut self, token: impl AsRef<[u8]>) -> Self {
        self.token = Some(TokenSource::Value(ClientToken::new(token.as_ref())));
        self
    }

    /// The token on the first line of this file, which is read when the broker is built. The same
    /// file serves the server: further lines are tokens it still accepts.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = Some(TokenSource::File(path.into()));
        self
    }

    /// Whether and how connections use TLS. Off unless set.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// The host name or IP address that the server's certificate has to carry, if it is not the
    /// address's host. Refused without TLS.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls_server_name = Some(name.into());
        self
    }

    /// How many acquires may be under way at a time: 1 to [`PENDING_COUNT_MAX`],
    /// [`PENDING_COUNT_DEFAULT`] unless set. One more is refused with [`Error::ClientCapacity`].
    /// A cancelled or indeterminate acquire counts until its answer comes or its connection ends.
    pub fn pending_limit(mut self, count: usize) -> Self {
        self.pending_count = count;
        self
    }

    /// Checks the settings and starts the broker. Connections come up in the background. Reads
    /// the token file and certificates, if any.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the setting that is wrong, or says that no Tokio runtime
    /// runs.
    pub fn build(&self) -> Result<Broker, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid("no Tokio runtime: build the broker inside one, with I/O and time")
        })?;
        if !(1..=PENDING_COUNT_MAX).contains(&self.pending_count) {
            return Err(Error::invalid(format!(
                "pending limit {}: it must be 1 to {PENDING_COUNT_MAX}",
                self.pending_count
            )));
        }
        let (targets, rules) = self.targets()?;
        let domain = self.fingerprint.map_or(Domain::Single, Domain::Cluster);
        let pool = Pool::new(targets.len(), &self.addresses.join(", "));
        let shared = Arc::new(Shared::new(domain, pool, self.pending_count, runtime));
        for (lane, target) in targets.into_iter().enumerate() {
            let worker_shared = Arc::clone(&shared);
            let queue_count = self.pending_count + QUEUE_MARGIN;
            shared.spawn(|stage| {
                Worker { shared: worker_shared, lane, rules, target, queue_count, stage }.run()
            });
        }
        Ok(Broker::new(Anchor { shared }))
    }

    /// Where each connection goes.
    fn targets(&self) -> Result<(Vec<Target>, ReplyRules), Error> {
        let addresses = self.addresses.iter().map(|text| Address::parse(text));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let token = self.checked_token(&addresses)?;
        let connector = tls::connector(&self.tls)?;
        if let (Some(name), None) = (&self.tls_server_name, &connector) {
            return Err(Error::invalid(format!(
                "TLS server name {name:?} without TLS: no certificate is looked at; turn TLS on \
                 too, or set no name"
            )));
        }
        let target = |address: &Address, mode, fingerprint| {
            let name = || tls::server_name(self.tls_server_name.as_deref(), address);
            let tls = match &connector {
                None => None,
                Some(connector) => {
                    Some(TlsTarget { connector: connector.clone(), server_name: name()? })
                }
            };
            let identity = Identity { mode, fingerprint, token: token.clone() };
            Ok(Target {
                address: address.clone(),
                tls,
                identity,
                #[cfg(test)]
                memory: self.memory.as_ref().map(|dialer| dialer.to(address.port)),
            })
        };
        match (&*addresses, self.fingerprint) {
            ([address], None) => {
                let target = target(address, Mode::Single, SINGLE_FINGERPRINT)?;
                Ok((vec![target; SINGLE_CONNECTION_COUNT], ReplyRules::Single))
            }
            (addresses, Some(fingerprint)) if matches!(addresses.len(), 3 | 5) => {
                let targets = addresses.iter().zip(0..).map(|(address, slot)| {
                    let self_slot = Slot::new(slot).expect("at most five addresses");
                    target(address, Mode::Cluster { self_slot }, *fingerprint.as_bytes())
                });
                let rules = ReplyRules::Cluster { voter_count: addresses.len() as u8 };
                Ok((targets.collect::<Result<_, _>>()?, rules))
            }
            (addresses, fingerprint) => {
                let found = if fingerprint.is_some() { "a" } else { "no" };
                Err(Error::invalid(format!(
                    "{} addresses and {found} fingerprint: give 1 address and no fingerprint for \
                     a single server, or 3 or 5 addresses in slot order and a fingerprint for a \
                     cluster",
                    addresses.len()
                )))
            }
        }
    }

    fn checked_token(&self, addresses: &[Address]) -> Result<ClientToken, Error> {
        match &self.token {
            Some(TokenSource::Value(Ok(token))) => Ok(token.clone()),
            Some(TokenSource::Value(Err(fault))) => Err(Error::invalid(format!(
                "token: {fault}; give the server's client token, 16 to 4096 bytes"
            ))),
            Some(TokenSource::File(path)) => TokenSet::from_file(path)
                .map(|tokens| tokens.newest().clone())
                .map_err(|error| Error::invalid(error.to_string())),
            None => match addresses.iter().find(|address| !address.is_loopback()) {
                None => Ok(ClientToken::none()),
                Some(address) => Err(Error::invalid(format!(
                    "address {address} without a token: give the server's client token; only \
                     loopback addresses work without one"
                ))),
            },
        }
    }
}
