//! Settings: environment variables, each with a flag of the same name.

mod check;
mod cluster;
mod secret;

use crate::limits::{
    CONNECTION_COUNT_DEFAULT, CONNECTION_COUNT_MAX, IN_FLIGHT_COUNT_DEFAULT, KEY_COUNT_DEFAULT,
    THREAD_COUNT_MAX, WAITERS_PER_KEY_DEFAULT,
};
use clap::builder::RangedI64ValueParser;
use clap::{Parser, value_parser};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use tracing_subscriber::EnvFilter;

pub use check::ConfigError;
pub(crate) use cluster::Mark;
pub use cluster::{ClusterConfig, ClusterError, SlotAddress, hex, parse_slots};
pub use secret::Secret;
use ticketing_auth::ClusterId;

/// Lock server: acquire, release, in order.
///
/// Started without anything it serves 127.0.0.1:5225 without authentication. Every setting is an
/// environment variable and a flag; the flag wins.
#[derive(Clone, Debug, Parser)]
#[command(name = "ticketing-server", version, max_term_width = 100)]
pub struct Settings {
    /// Addresses to serve, as IP:PORT, an IPv6 address in brackets; several with commas. Port 0
    /// takes a free one (not in a cluster). An IPv6 address never serves IPv4 too: list both.
    #[arg(
        long, env = "TICKETING_LISTEN", value_name = "ADDRESS", value_delimiter = ',',
        default_value = "127.0.0.1:5225", value_parser = check::parse_address
    )]
    pub listen: Vec<SocketAddr>,

    /// Token that clients must know, 16 to 4096 bytes. Needed to listen beyond loopback. Prefer
    /// the file: command lines and environments can be seen by others.
    #[arg(
        long,
        env = "TICKETING_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<Secret>,

    /// File with one accepted token a line, newest first; several are for replacing one.
    #[arg(long, env = "TICKETING_TOKEN_FILE", value_name = "PATH")]
    pub token_file: Option<PathBuf>,

    /// Certificate chain (PEM) for TLS 1.2 and 1.3; needs the key too.
    #[arg(long, env = "TICKETING_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the certificate.
    #[arg(long, env = "TICKETING_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Identity of the cluster, from `ticketing-server cluster new`. With it, this is a node of a
    /// cluster; without it, a single server.
    #[arg(long, env = "TICKETING_CLUSTER_ID", value_name = "ID")]
    pub cluster_id: Option<ClusterId>,

    /// Addresses of the 3 or 5 nodes, with commas, in slot order and the same everywhere: HOST:PORT
    /// for clients, or HOST:PORT/HOST:PORT with the one for nodes second (1000 ports up otherwise).
    #[arg(long, env = "TICKETING_CLUSTER_SLOTS", value_name = "ADDRESSES", value_delimiter = ',')]
    pub cluster_slots: Vec<String>,

    /// This node's place in the list of slots, from 0.
    #[arg(long, env = "TICKETING_SLOT", value_name = "SLOT")]
    pub slot: Option<u8>,

    /// Address to listen on for other nodes, as IP:PORT. Without it: the port of the slot's peer
    /// address.
    #[arg(
        long, env = "TICKETING_PEER_LISTEN", value_name = "ADDRESS",
        value_parser = check::parse_address
    )]
    pub peer_listen: Option<SocketAddr>,

    /// Token that nodes prove to each other, 16 to 4096 bytes. Prefer the file.
    #[arg(
        long,
        env = "TICKETING_PEER_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        conflicts_with = "peer_token_file"
    )]
    pub peer_token: Option<Secret>,

    /// File with one accepted peer token a line, newest first; several are for replacing one.
    #[arg(long, env = "TICKETING_PEER_TOKEN_FILE", value_name = "PATH")]
    pub peer_token_file: Option<PathBuf>,

    /// This node's certificate chain (PEM) for TLS between nodes, which both sides show; needs the
    /// key and the authority too.
    #[arg(
        long, env = "TICKETING_PEER_TLS_CERT", value_name = "PATH",
        requires_all = ["peer_tls_key", "peer_tls_ca"]
    )]
    pub peer_tls_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate.
    #[arg(long, env = "TICKETING_PEER_TLS_KEY", value_name = "PATH", requires = "peer_tls_cert")]
    pub peer_tls_key: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed every node's.
    #[arg(long, env = "TICKETING_PEER_TLS_CA", value_name = "PATH", requires = "peer_tls_cert")]
    pub peer_tls_ca: Option<PathBuf>,

    /// Directory for what must survive a crash: with it, a server that was killed grants nothing
    /// until every lease of its predecessor is over.
    #[arg(long, env = "TICKETING_STATE_DIR", value_name = "PATH")]
    pub state_dir: Option<PathBuf>,

    /// Unix socket on which `ticketing-server status` asks this server how it stands.
    #[arg(long, env = "TICKETING_ADMIN_SOCKET", value_name = "PATH", global = true)]
    pub admin_socket: Option<PathBuf>,

    /// Authenticated connections at once.
    #[arg(
        long, env = "TICKETING_MAX_CONNECTIONS", value_name = "COUNT",
        default_value_t = CONNECTION_COUNT_DEFAULT, value_parser = count(CONNECTION_COUNT_MAX)
    )]
    pub max_connections: u32,

    /// Keys held or waited for at once; beyond it an acquire of another key is answered busy.
    #[arg(
        long, env = "TICKETING_MAX_KEYS", value_name = "COUNT",
        default_value_t = KEY_COUNT_DEFAULT, value_parser = count(u32::MAX)
    )]
    pub max_keys: u32,

    /// Requests waiting for one key; one more is answered busy.
    #[arg(
        long, env = "TICKETING_MAX_WAITERS_PER_KEY", value_name = "COUNT",
        default_value_t = WAITERS_PER_KEY_DEFAULT, value_parser = count(u32::MAX)
    )]
    pub max_waiters_per_key: u32,

    /// Unanswered requests of one connection; one more acquire is answered busy.
    #[arg(
        long, env = "TICKETING_MAX_IN_FLIGHT", value_name = "COUNT",
        default_value_t = IN_FLIGHT_COUNT_DEFAULT, value_parser = count(u32::MAX)
    )]
    pub max_in_flight: u32,

    /// I/O threads. Without it: one less than the processors that this process may use, at least
    /// one.
    #[arg(
        long, env = "TICKETING_THREADS", value_name = "COUNT",
        value_parser = count(THREAD_COUNT_MAX)
    )]
    pub threads: Option<u32>,

    /// What is logged to standard error: error, warn, info, debug or trace, or a filter such as
    /// info,ticketing_server::net=debug.
    #[arg(
        long, env = "TICKETING_LOG", value_name = "FILTER", default_value = "info",
        value_parser = check::parse_log_filter
    )]
    pub log: LogFilter,
}

/// A checked log filter.
#[derive(Clone, Debug)]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter.
    pub fn to_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }
}

/// Zero is never "no limit", so it is refused.
fn count(max: u32) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=i64::from(max))
}

/// Reads a command line that contains [`Settings`], and the environment. Prints and exits for
/// `--help` and `--version`.
///
/// # Errors
/// Names the setting and what to do about it.
pub fn read<P: Parser>(
    arguments: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<P, ConfigError> {
    let variables: Vec<_> = variables.collect();
    check::check_environment(&variables)?;
    let explain = |error: clap::Error| match error.exit_code() {
        0 => error.exit(),
        _ => ConfigError::Value(check::explain(&error)),
    };
    let mut matches = P::command().try_get_matches_from(arguments).map_err(explain)?;
    let is_server = matches.subcommand_name().is_none();
    if is_server && !matches.contains_id("tls_cert") {
        check::check_client_tls(&variables)?;
    }
    P::from_arg_matches_mut(&mut matches).map_err(explain)
}

impl Settings {
    /// Reads the command line and the environment. Prints and exits for `--help` and `--version`.
    ///
    /// # Errors
    /// Names the setting and what to do about it.
    pub fn read(
        arguments: impl Iterator<Item = OsString>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        read(arguments, variables)
    }

    /// I/O threads: as set, or as many as the processors that this process may use (affinity and
    /// quota) are good for.
    pub fn thread_count(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(|| thread_count_on(available()), |count| count as usize)
    }
}

/// One processor stays free for the kernel's part of the work and for clients on this machine: a
/// thread that loses its processor to them while it has the engine keeps all others waiting.
const fn thread_count_on(processor_count: usize) -> usize {
    if processor_count > 2 { processor_count - 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_the_processors_and_leave_one_free() {
        let counts = [1, 2, 3, 4, 64].map(thread_count_on);
        assert_eq!(counts, [1, 1, 2, 3, 63]);
    }
}
