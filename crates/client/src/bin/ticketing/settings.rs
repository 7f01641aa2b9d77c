//! Which server, and how to reach it: flags, each with an environment variable.

use crate::exit::{Failure, USAGE};
use clap::{Args, ValueEnum};
use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use ticketing_auth::TokenSet;
use ticketing_client::{Broker, Tls};

/// The token. No flag: command lines can be seen by others.
const TOKEN_VARIABLE: &str = "TICKETING_TOKEN";

#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Settings {
    /// Server as HOST:PORT, an IPv6 address in brackets; or the 3 or 5 nodes of a cluster in slot
    /// order, with commas.
    #[arg(
        long,
        alias = "address",
        env = "TICKETING_ADDRESSES",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1:5225"
    )]
    addresses: Vec<String>,

    /// Identity of the cluster: 64 hexadecimal digits, as its nodes print them.
    #[arg(long, env = "TICKETING_FINGERPRINT", value_name = "HEX")]
    fingerprint: Option<String>,

    /// File with the token, on its first line. The variable TICKETING_TOKEN can hold the token
    /// itself. Not needed on loopback if the server has none.
    #[arg(long, env = "TICKETING_TOKEN_FILE", value_name = "PATH")]
    token_file: Option<PathBuf>,

    /// TLS 1.2 or 1.3: off, system (the operating system's authorities), or insecure (accept any
    /// certificate: for experiments only) [default: off, without --tls-ca]
    #[arg(
        long,
        env = "TICKETING_TLS",
        value_enum,
        value_name = "MODE",
        hide_possible_values = true
    )]
    tls: Option<TlsMode>,

    /// TLS with the certificate authorities in this PEM file; instead of --tls.
    #[arg(long, env = "TICKETING_TLS_CA", value_name = "PATH")]
    tls_ca: Option<PathBuf>,

    /// Name that the server's certificate has to carry, if it is not the address's host. Needs
    /// TLS.
    #[arg(long, env = "TICKETING_TLS_SERVER_NAME", value_name = "NAME")]
    tls_server_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TlsMode {
    Insecure,
    Off,
    System,
}

impl Settings {
    /// Starts the broker; its connections come up in the background.
    pub(crate) fn broker(&self) -> Result<Broker, Failure> {
        let tls = self.tls()?;
        let mut builder = Broker::builder().addresses(&self.addresses);
        if let Some(text) = &self.fingerprint {
            builder = builder.fingerprint(text.parse()?);
        }
        if let Some(name) = &self.tls_server_name {
            if tls == Tls::Off {
                return Err(usage(
                    "--tls-server-name (TICKETING_TLS_SERVER_NAME) without TLS: no certificate \
                     is looked at; give --tls system or --tls-ca too, or leave the name out",
                ));
            }
            builder = builder.tls_server_name(name);
        }
        builder = match (env::var_os(TOKEN_VARIABLE), &self.token_file) {
            (None, None) => builder,
            (None, Some(path)) => builder.token_file(path),
            (Some(token), None) => builder.token(checked_token(&token)?),
            (Some(_), Some(_)) => {
                return Err(usage(
                    "--token-file (TICKETING_TOKEN_FILE) and TICKETING_TOKEN are both set; give \
                     one of them",
                ));
            }
        };
        Ok(builder.tls(tls).build()?)
    }

    /// What contradicts each other is refused: nobody should believe in a TLS that is not there,
    /// or in certificates that are not checked.
    fn tls(&self) -> Result<Tls, Failure> {
        let mode = match (self.tls, &self.tls_ca) {
            (None, Some(path)) => return Ok(Tls::CaFile(path.clone())),
            (Some(mode), Some(path)) => {
                let value = mode.to_possible_value().expect("no mode is hidden");
                return Err(usage(format!(
                    "--tls {} (TICKETING_TLS) and --tls-ca {} (TICKETING_TLS_CA) contradict each \
                     other; --tls-ca alone is TLS with that authority",
                    value.get_name(),
                    path.display()
                )));
            }
            (mode, None) => mode.unwrap_or(TlsMode::Off),
        };
        Ok(match mode {
            TlsMode::Insecure => Tls::InsecureAcceptAnyCertificate,
            TlsMode::Off => Tls::Off,
            TlsMode::System => Tls::SystemRoots,
        })
    }
}

/// By the rules for the server's variable of the same name.
fn checked_token(token: &OsStr) -> Result<&str, Failure> {
    let text = token.to_str().ok_or_else(|| {
        usage(format!("{TOKEN_VARIABLE}: not valid UTF-8; correct its value, or use --token-file"))
    })?;
    TokenSet::from_value(TOKEN_VARIABLE, text).map_err(usage)?;
    Ok(text)
}

fn usage(problem: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, problem)
}
