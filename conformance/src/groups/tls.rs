//! Group `tls`: whom a client believes, over TLS 1.2 and 1.3.

use crate::failure::{Check, fail};
use crate::frame::Identity;
use crate::scenario::{Group, Scenario, Stage};
use crate::tls::Authority;
use crate::wire::Wire;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// Names in a good certificate.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (version, tls) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
        let mut add = |name: &str, case: Case| {
            all.push(Scenario::new(Group::Tls, format!("{name}-{tls}"), move |stage| {
                judge(stage, case, version)
            }));
        };
        add("right-ca-ip-address", Case::right());
        add("right-ca-host-name", Case { host: "localhost", ..Case::right() });
        add(
            "right-ca-name-given",
            Case { names: &["lock.example"], name: "lock.example", ..Case::right() },
        );
        add("wrong-ca", Case { trust: Trust::OtherAuthority, ..Case::wrong() });
        add("system-roots", Case { trust: Trust::System, host: "localhost", ..Case::wrong() });
        add(
            "wrong-host-name",
            Case { names: &["lock.example"], host: "localhost", ..Case::wrong() },
        );
        add("wrong-ip-address", Case { names: &["127.0.0.2"], ..Case::wrong() });
        add("wrong-name-given", Case { name: "other.example", ..Case::wrong() });
        add(
            "insecure-believes-all",
            Case { names: &["lock.example"], trust: Trust::All, ..Case::right() },
        );
    }
    all.push(Scenario::new(Group::Tls, "plain-server", plain_server));
    all
}

#[derive(Clone, Copy)]
enum Trust {
    Authority,
    OtherAuthority,
    System,
    All,
}

#[derive(Clone, Copy)]
struct Case {
    /// In the certificate.
    names: &'static [&'static str],
    /// In the address.
    host: &'static str,
    /// Given as `server_name`, unless empty.
    name: &'static str,
    trust: Trust,
    accepted: bool,
}

impl Case {
    const fn right() -> Self {
        let trust = Trust::Authority;
        Self { names: &NAMES, host: "127.0.0.1", name: "", trust, accepted: true }
    }

    const fn wrong() -> Self {
        Self { accepted: false, ..Self::right() }
    }
}

async fn judge(stage: Stage, case: Case, version: &'static SupportedProtocolVersion) -> Check {
    // Over TLS as over TCP, with a token: the whole order TCP, TLS, proof, frames.
    let identity = Identity::single().with_token(b"a token for TLS tests");
    let acceptor = stage.authority().acceptor(case.names, version)?;
    let mut wire = Wire::listen(identity).await?.with_tls(acceptor);
    let other = Authority::new()?;
    let tls = match case.trust {
        Trust::Authority => format!("ca:{}", stage.authority().ca_file().display()),
        Trust::OtherAuthority => format!("ca:{}", other.ca_file().display()),
        Trust::System => "system".to_owned(),
        Trust::All => "insecure".to_owned(),
    };
    let mut options = crate::scenario::options_of(&wire.identity);
    if !case.name.is_empty() {
        options += &format!(" server_name={}", case.name);
    }
    let broker =
        stage.open(&format!("addrs={}:{} {options} tls={tls}", case.host, wire.port(0))).await?;
    if case.accepted {
        wire.connected(2).await?;
        broker.ready().await?;
        return broker.works(&mut wire).await;
    }
    // Not even the handshake of TLS may end well, or the client would have shown its proof to
    // somebody else.
    for _ in 0..2 {
        let mut conn = match wire.accept(0).await {
            Err(_) => continue,
            Ok(conn) => conn,
        };
        // Under TLS 1.3 the server is done before the client has judged.
        let _ = conn.write(&wire.identity.hello(0, &[9; 16])).await;
        if let Err(failure) = conn.closed_by_client(crate::limits::STEP_LIMIT).await {
            return fail("the certificate refused", failure.seen);
        }
    }
    broker.send("ready", "timeout_ms=300").expect("error NotConnected").await.map(drop)
}

/// A client told to use TLS never falls back.
async fn plain_server(stage: Stage) -> Check {
    let mut wire = Wire::listen(Identity::single()).await?;
    let ca = stage.authority().ca_file();
    let broker = stage.open_on(&wire, &format!("tls=ca:{}", ca.display())).await?;
    for _ in 0..2 {
        let mut conn = wire.accept(0).await?;
        let first = conn.take("a TLS client hello", 1).await?;
        crate::failure::same_bytes("TLS record of a handshake", &[0x16], &first)?;
        conn.write(&wire.identity.hello(0, &[9; 16])).await?;
    }
    broker.send("ready", "timeout_ms=300").expect("error NotConnected").await.map(drop)
}
