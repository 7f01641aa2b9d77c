//! The real server, as a process of its own on a free loopback port.

use crate::limits::{BUILD_LIMIT, STEP_LIMIT};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

/// The server promises to stop within 5 s.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Where it listens unless told otherwise.
const ANY_PORT: &str = "127.0.0.1:0";

/// A running server; killed when dropped.
pub struct ServerProcess {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

/// How the server is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Quickly made, with debug assertions: for judging what happens.
    Debug,
    /// As users run it: for measuring.
    Release,
}

/// Builds the server once in the life of this process, and says where it is.
///
/// # Errors
/// What cargo said.
pub async fn server_binary(profile: Profile) -> Result<PathBuf, String> {
    static BINARIES: [OnceCell<Result<PathBuf, String>>; 2] = [const { OnceCell::const_new() }; 2];
    BINARIES[profile as usize].get_or_init(|| build(profile)).await.clone()
}

async fn build(profile: Profile) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What cargo told this program of its own package: dependencies whose build scripts look at it
    // would be built again each time another package's program asks for the server.
    let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
    for (name, _) in std::env::vars_os() {
        if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["build", "--quiet", "--package", "ticketing-server", "--bin", "ticketing-server"])
        .arg("--message-format=json-render-diagnostics")
        .args((profile == Profile::Release).then_some("--release"))
        .current_dir(root)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(BUILD_LIMIT, output)
        .await
        .map_err(|_| format!("the server is not built after {BUILD_LIMIT:?}"))?
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built no server".to_owned())
}

impl ServerProcess {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// When it cannot be built, or does not start.
    pub async fn start(arguments: &[&str]) -> Result<Self, String> {
        Self::run(Profile::Debug, ANY_PORT, arguments).await
    }

    /// Starts the one for measuring on a free port.
    ///
    /// # Errors
    /// When it cannot be built, or does not start.
    pub async fn start_for_measuring() -> Result<Self, String> {
        Self::run(Profile::Release, ANY_PORT, &[]).await
    }

    /// Starts it at an address.
    ///
    /// # Errors
    /// When it cannot be built, or does not start.
    pub async fn start_at(address: SocketAddr, arguments: &[&str]) -> Result<Self, String> {
        Self::run(Profile::Debug, &address.to_string(), arguments).await
    }

    async fn run(profile: Profile, address: &str, arguments: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(server_binary(profile).await?);
        command.args(["--listen", address, "--log", "warn"]).args(arguments);
        for (name, _) in std::env::vars_os() {
            if is_server_setting(&name) {
                command.env_remove(name);
            }
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the server: {error}"))?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(STEP_LIMIT, lines.next_line())
            .await
            .map_err(|_| format!("the server printed no start line within {STEP_LIMIT:?}"))?
            .map_err(|error| error.to_string())?
            .ok_or("the server ended before its start line")?;
        let address = listening(&line).ok_or_else(|| format!("no address in `{line}`"))?;
        Ok(Self { address, child })
    }

    /// Stops it in order, by SIGTERM.
    ///
    /// # Errors
    /// When it does not exit 0 within its limit.
    pub async fn stop(mut self) -> Result<(), String> {
        let Some(pid) = self.child.id() else {
            return Err("the server had ended by itself".to_owned());
        };
        let sent = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await;
        if !sent.is_ok_and(|status| status.success()) {
            return Err("SIGTERM could not be sent to the server".to_owned());
        }
        match tokio::time::timeout(STOP_LIMIT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(ended) => Err(format!("the server ended with {ended:?}")),
            Err(_) => Err(format!("the server still runs {STOP_LIMIT:?} after SIGTERM")),
        }
    }

    /// Ends it at once, by SIGKILL.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())
    }
}

fn is_server_setting(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("TICKETING_"))
}

/// The first address of a start line.
fn listening(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    rest.split([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_line_tells_the_address() {
        let line = "ticketing-server listening on 127.0.0.1:5225,[::1]:5225 mode=single auth=off";
        assert_eq!(listening(line), Some(([127, 0, 0, 1], 5225).into()));
        assert_eq!(listening("started"), None);
    }
}
