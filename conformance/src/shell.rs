//! Commands of others, run by `sh -c` with a limit of time.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Lines of a command's output that a report shows.
const LINE_COUNT_MAX: usize = 12;

/// How a command ended in time.
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The last lines of its output.
    pub said: String,
}

/// Runs a command in `directory` with additional variables.
///
/// # Errors
/// When it cannot be started, or is not done within `limit`; then it is killed.
pub async fn run(
    command: &str,
    directory: &Path,
    variables: &[(&str, &str)],
    limit: Duration,
) -> Result<Ended, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let (stdout, stderr, status) = tokio::join!(all(stdout), all(stderr), child.wait());
        (stdout + &stderr, status)
    };
    let ended = tokio::time::timeout(limit, ended).await;
    match ended {
        Ok((said, status)) => {
            let status = status.map_err(|error| error.to_string())?;
            Ok(Ended { status, said: last_lines(&said) })
        }
        Err(_) => {
            kill_group(&child).await;
            Err(format!("not done after {limit:?}"))
        }
    }
}

async fn all(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is as good as there is.
        let _ = pipe.read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Kills a child that leads a process group of its own, and what it has started.
pub(crate) async fn kill_group(child: &Child) {
    if let Some(pid) = child.id() {
        let group = format!("-{pid}");
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status().await;
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINE_COUNT_MAX)..].join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run_here(command: &str, limit: Duration) -> Result<Ended, String> {
        run(command, Path::new("."), &[("NAME", "value")], limit).await
    }

    #[tokio::test]
    async fn output_and_status_come_back() {
        let ended = run_here("echo $NAME; echo b >&2; exit 3", Duration::from_secs(60)).await;
        let ended = ended.expect("started");
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.said, "value\n    b");
    }

    #[tokio::test]
    async fn a_command_without_end_is_killed() {
        let ended = run_here("sleep 600 & sleep 600", Duration::from_millis(50)).await;
        assert!(ended.is_err_and(|error| error.contains("not done")));
    }
}
