//! A server from start to stop.

use super::admin::{Admin, AdminError};
use super::connection::{Connection, Ended};
use super::disk::Disk;
use super::engines::Engines;
use super::handshake::{Gate, Refusal};
use super::linger::Lingering;
use super::listener::{self, ListenError};
use super::lobby::Lobby;
use super::peers::{PeerTls, Peers};
use super::seldom::Seldom;
use super::shared::Shared;
use super::tls::{self, TlsError};
use crate::clock::{Clock, own_unix_millisecond, unix_milliseconds};
use crate::cluster::life::{Birth, later};
use crate::cluster::replicated::{Exit, NodeSettings, Replicated};
use crate::config::{ClusterConfig, ConfigError, Mark, Settings, hex};
use crate::engine::{Counters, Engine, EngineSettings, Persisted};
use crate::limits::{HAND_OVER_PAUSE, HAND_OVER_TIME_MAX, MOVE_ON_TIME, SHUTDOWN_TIME_MAX};
use crate::state::{Predecessor, StateDir, StateError};
use crate::system::Shares;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use ticketing_auth::SINGLE_FINGERPRINT;
use ticketing_lock_core::{Instant, TableLimits};
use ticketing_wire_codec::{Mode, Slot};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time;
use tracing::{debug, error, info, warn};

/// Why the server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The admin socket.
    Admin(AdminError),
    /// Settings that do not fit together.
    Config(ConfigError),
    /// An address.
    Listen(ListenError),
    /// The operating system gives no random bytes.
    Random,
    /// The state directory.
    State(StateError),
    /// The certificate or its key.
    Tls(TlsError),
}

/// A server that listens.
pub struct Server {
    gate: Arc<Gate>,
    lobby: Arc<Lobby>,
    disk: Option<Disk>,
    cluster: Option<ClusterNode>,
    admin: Option<Admin>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    has_tls: bool,
}

/// What a cluster node has beyond a single server.
struct ClusterNode {
    config: ClusterConfig,
    listener: TcpListener,
    peers: Arc<Peers>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This node's state differed from the leader's.
    Diverged,
    /// This node's slot belongs to a younger process.
    Removed,
    /// As it was told to.
    Stopped,
}

impl Server {
    /// Reads what the settings name and binds their addresses. Needs a running tokio runtime.
    ///
    /// # Errors
    /// Names the setting and what to do about it.
    pub fn bind(settings: &Settings) -> Result<Self, StartError> {
        let tokens = settings.tokens().map_err(StartError::Config)?;
        let tls = match (&settings.tls_cert, &settings.tls_key) {
            (Some(cert), Some(key)) => Some(tls::acceptor(cert, key).map_err(StartError::Tls)?),
            _ => None,
        };
        let listeners = settings
            .listen
            .iter()
            .map(|address| listener::bind(*address))
            .collect::<Result<Vec<_>, _>>()
            .map_err(StartError::Listen)?;
        let addresses = listeners.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let admin = match &settings.admin_socket {
            Some(path) => Some(Admin::bind(path).map_err(StartError::Admin)?),
            None => None,
        };
        let clock = Clock::start();
        let random = SystemRandom::new();
        let shares = Shares::new(settings.max_connections);
        let lingering = Arc::new(Lingering::new(shares.lingering));
        let full = Seldom::default();
        let lobby = Arc::new(Lobby::new(shares.unauthenticated));
        let has_tls = tls.is_some();
        let config =
            settings.cluster().map_err(|error| StartError::Config(ConfigError::Cluster(error)))?;
        let Some(config) = config else {
            // Last, because it marks this run as begun.
            let (disk, predecessor) = open_state(settings)?;
            let mut engine_settings = engine_settings(settings, clock.now())?;
            if let Some(predecessor) = predecessor {
                continue_after(&mut engine_settings, &predecessor);
            }
            let engine = Engines::Single(Box::new(Engine::new(&engine_settings)));
            let shared = Arc::new(Shared::new(engine, clock));
            let (mode, fingerprint) = (Mode::Single, SINGLE_FINGERPRINT);
            let gate =
                Arc::new(Gate { shared, tokens, tls, random, lingering, full, mode, fingerprint });
            let cluster = None;
            return Ok(Self { gate, lobby, disk, cluster, admin, listeners, addresses, has_tls });
        };
        let (shared, node) = cluster_node(settings, config, clock)?;
        let self_slot = Slot::new(node.config.slot).expect("checked against the slots");
        let (mode, fingerprint) = (Mode::Cluster { self_slot }, node.config.fingerprint());
        let gate =
            Arc::new(Gate { shared, tokens, tls, random, lingering, full, mode, fingerprint });
        let (disk, cluster) = (None, Some(node));
        Ok(Self { gate, lobby, disk, cluster, admin, listeners, addresses, has_tls })
    }

    /// Where it listens; a port 0 of the settings is the chosen one here.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Figures of the engine, at any time.
    pub fn counters(&self) -> impl Fn() -> Counters + Send + use<> {
        let shared = Arc::clone(&self.gate.shared);
        move || shared.counters()
    }

    /// Serves until `stop` is ready, then ends every connection after its replies. Returns within
    /// [`SHUTDOWN_TIME_MAX`] of that.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> End {
        let Self { gate, lobby, disk, cluster, admin, listeners, .. } = self;
        let shared = Arc::clone(&gate.shared);
        // Every connection holds a sender, so the receiver ends when all of them have.
        let (open, mut all_closed) = mpsc::channel::<()>(1);
        let mut workers = JoinSet::new();
        for listener in listeners {
            let (gate, lobby, open) = (Arc::clone(&gate), Arc::clone(&lobby), open.clone());
            let hosts = Arc::clone(&lobby);
            let take = move |stream| {
                let (gate, open) = (Arc::clone(&gate), open.clone());
                hosts.admit(|guest| async move {
                    welcome(&gate, stream, open).await;
                    drop(guest);
                });
            };
            workers.spawn(listener::accept(listener, take, move || lobby.make_room()));
        }
        drop(open);
        workers.spawn(keep_time(Arc::clone(&shared)));
        if let Some(admin) = admin {
            workers.spawn(admin.serve(Arc::clone(&shared)));
        }
        if let Some(disk) = disk.clone() {
            workers.spawn(disk.keep_ahead(Arc::clone(&shared)));
        }
        let (end, begun) = match cluster {
            None => {
                stop.await;
                (End::Stopped, time::Instant::now())
            }
            Some(ClusterNode { listener, peers, .. }) => {
                peers.start(listener, &mut workers);
                serve_in_cluster(&shared, &peers, stop).await
            }
        };
        let Counters { sessions, in_flight, granted, expired, reclaimed } = shared.counters();
        info!(sessions, in_flight, granted, expired, reclaimed, "stopping");
        // The listeners close first, then whoever is in the lobby or connected.
        workers.shutdown().await;
        lobby.close();
        shared.shut_down();
        let until = begun + SHUTDOWN_TIME_MAX;
        if time::timeout_at(until, all_closed.recv()).await.is_err() {
            warn!(sessions = shared.counters().sessions, "stopped before all replies were taken");
        }
        if let Some(disk) = disk {
            disk.seal(&shared).await;
        }
        end
    }
}

/// Until the stop, which hands leadership over first; or until this node must not go on. Returns
/// since when it stops, too.
async fn serve_in_cluster(
    shared: &Shared,
    peers: &Peers,
    stop: impl Future<Output = ()>,
) -> (End, time::Instant) {
    tokio::select! {
        () = stop => {}
        exit = peers.end() => {
            let end = match exit {
                Exit::Diverged(index) => {
                    error!(index, "this node's state differs from the leader's; stopping");
                    End::Diverged
                }
                Exit::Removed => {
                    error!("this node's slot belongs to a younger process; stopping");
                    End::Removed
                }
            };
            return (end, time::Instant::now());
        }
    }
    let begun = time::Instant::now();
    shared.cluster(|engine, now| engine.begin_hand_over(now));
    let is_handed_over = || shared.cluster(|engine, now| engine.is_handed_over(now)) != Some(false);
    let handed_over = async {
        loop {
            while !is_handed_over() {
                time::sleep(HAND_OVER_PAUSE).await;
            }
            time::sleep(MOVE_ON_TIME).await;
            // Meanwhile another one that stops may have handed leadership to this one.
            if is_handed_over() {
                return;
            }
        }
    };
    let until = begun + HAND_OVER_TIME_MAX + 2 * MOVE_ON_TIME;
    if time::timeout_at(until, handed_over).await.is_err() {
        warn!("stopping although nobody took leadership over");
    }
    (End::Stopped, begun)
}

/// The engine of a cluster node, and its listener for peers.
fn cluster_node(
    settings: &Settings,
    config: ClusterConfig,
    clock: Clock,
) -> Result<(Arc<Shared>, ClusterNode), StartError> {
    let tls = match (&settings.peer_tls_cert, &settings.peer_tls_key, &settings.peer_tls_ca) {
        (Some(cert), Some(key), Some(authority)) => {
            Some(PeerTls::new(cert, key, authority).map_err(StartError::Tls)?)
        }
        _ => None,
    };
    let listener = listener::bind(config.peer_listen)
        .map_err(|error| StartError::Listen(error.for_setting("TICKETING_PEER_LISTEN")))?;
    let mark = match &settings.state_dir {
        Some(directory) => Some(
            Mark::open(directory, &config.fingerprint())
                .map_err(|error| StartError::State(StateError::Io(directory.clone(), error)))?,
        ),
        None => None,
    };
    let was_member = match (&mark, &settings.state_dir) {
        (Some(mark), Some(directory)) => mark
            .is_set()
            .map_err(|error| StartError::State(StateError::Io(directory.clone(), error)))?,
        _ => false,
    };
    let mut random = [0; 32];
    SystemRandom::new().fill(&mut random).map_err(|_| StartError::Random)?;
    let [incarnation, seed, hash_low, hash_high] = std::array::from_fn(|at| {
        u64::from_be_bytes(random[8 * at..8 * at + 8].try_into().expect("8"))
    });
    let now = clock.now();
    let birth = Birth {
        slot: config.slot,
        slot_count: config.slot_count(),
        incarnation,
        bootstrap_until: bootstrap_until(&config, now),
        was_member,
    };
    let EngineSettings { connection_count_max, in_flight_count_max, table, .. } =
        engine_settings(settings, now)?;
    let node_settings = NodeSettings {
        birth,
        table,
        hash_seed: (u128::from(hash_high) << 64 | u128::from(hash_low)).to_be_bytes(),
        seed,
        unix_milliseconds_at_zero: unix_milliseconds().saturating_sub(now.as_nanos() / 1_000_000),
    };
    let locks = Replicated::new(node_settings, now);
    let engine = Engine::over(locks, connection_count_max, in_flight_count_max);
    let shared = Arc::new(Shared::new(Engines::Cluster(Box::new(engine)), clock));
    let peers = Peers::new(Arc::clone(&shared), config.clone(), incarnation, tls, mark);
    Ok((shared, ClusterNode { config, listener, peers }))
}

/// Until when this process would begin the cluster, on its own clock.
fn bootstrap_until(config: &ClusterConfig, now: Instant) -> Instant {
    let unix_seconds = unix_milliseconds() / 1_000;
    if !config.id.may_bootstrap(unix_seconds) {
        return now;
    }
    let window_end = config.id.created_unix_seconds() + u64::from(config.id.window_seconds());
    later(now, Duration::from_secs(window_end.saturating_sub(unix_seconds)))
}

impl fmt::Display for Server {
    /// The start line: words and `name=value` pairs, one line, for people and programs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let on_off = |is_on| if is_on { "on" } else { "off" };
        let mode = if self.cluster.is_some() { "cluster" } else { "single" };
        write!(
            f,
            "ticketing-server listening on {} mode={mode} auth={} tls={}",
            addresses.join(","),
            on_off(self.gate.tokens.is_required()),
            on_off(self.has_tls)
        )?;
        match &self.cluster {
            None => Ok(()),
            Some(ClusterNode { config, .. }) => write!(
                f,
                " slot={} slots={} peers={} fingerprint={}",
                config.slot,
                config.slot_count(),
                config.peer_listen,
                hex(&config.fingerprint())
            ),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Random => f.write_str(
                "the operating system gives no random bytes; check that getrandom(2) is allowed",
            ),
            Self::State(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

fn engine_settings(settings: &Settings, now: Instant) -> Result<EngineSettings, StartError> {
    let mut hash_seed = [0; 16];
    SystemRandom::new().fill(&mut hash_seed).map_err(|_| StartError::Random)?;
    Ok(EngineSettings {
        connection_count_max: Shares::new(settings.max_connections).authenticated,
        in_flight_count_max: settings.max_in_flight,
        table: TableLimits {
            key_count_max: settings.max_keys,
            waiters_per_key_max: settings.max_waiters_per_key,
        },
        hash_seed,
        // A restarted server continues above its predecessor, however soon: nobody grants 2^20
        // locks a millisecond.
        token_floor: own_unix_millisecond() << 20,
        persisted: Persisted::UNLIMITED,
        active_from: now,
    })
}

/// The state directory if there is one, and what the predecessor left in it.
fn open_state(settings: &Settings) -> Result<(Option<Disk>, Option<Predecessor>), StartError> {
    let Some(path) = &settings.state_dir else { return Ok((None, None)) };
    let (mut state, predecessor) = StateDir::open(path).map_err(StartError::State)?;
    let predecessor = predecessor.unwrap_or(Predecessor::NONE);
    // From here on a crash counts.
    state.promise(predecessor.persisted).map_err(StartError::State)?;
    Ok((Some(Disk::new(state)), Some(predecessor)))
}

/// Grants nothing while a lease of the predecessor may run, and only above its tokens.
fn continue_after(settings: &mut EngineSettings, predecessor: &Predecessor) {
    let Predecessor { persisted, lease_time_left, is_clean } = *predecessor;
    settings.token_floor = settings.token_floor.max(persisted.token_ceiling);
    settings.persisted = persisted;
    let wait = lease_time_left.as_nanos() as u64;
    settings.active_from = Instant::from_nanos(settings.active_from.as_nanos() + wait);
    if wait > 0 {
        let seconds = lease_time_left.as_secs_f64();
        info!(seconds, is_clean, "not active until the predecessor's leases are over");
    }
}

/// One connection from accept to authenticated, and on as a task of its own.
async fn welcome(gate: &Gate, stream: TcpStream, open: mpsc::Sender<()>) {
    let peer = stream.peer_addr().ok();
    match gate.pass(stream).await {
        Ok((transport, session)) => {
            // A fresh task: the handshake's is large.
            let connection = Connection::new(transport, session);
            tokio::spawn(serve(connection, peer, Arc::clone(&gate.lingering), open));
        }
        Err(refusal @ Refusal::TooMany) if gate.full.is_due(gate.shared.now()) => {
            warn!(?peer, %refusal, "connection refused");
        }
        Err(refusal) => debug!(?peer, %refusal, "connection refused"),
    }
}

async fn serve(
    connection: Connection,
    peer: Option<SocketAddr>,
    lingering: Arc<Lingering>,
    _open: mpsc::Sender<()>,
) {
    let Ended { reason, flushed } = connection.await;
    if let Some(reason) = reason {
        debug!(?peer, %reason, "connection ended");
    }
    if let Some(mut transport) = flushed {
        Box::pin(lingering.linger(transport.stream())).await;
    }
}

/// Wakes up for what is due when no connection does.
async fn keep_time(shared: Arc<Shared>) {
    loop {
        let sleep = shared.advance();
        if sleep.is_zero() {
            tokio::task::yield_now().await;
        } else {
            time::sleep(sleep).await;
        }
    }
}
