//! `drivers.txt`: which clients there are, how their drivers are built and started.

use crate::limits::BUILD_LIMIT;
use crate::shell;
use std::path::{Path, PathBuf};

/// Exit status of a build that found no toolchain.
const STATUS_NO_TOOLCHAIN: i32 = 77;

/// A client language and its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    /// As in `--language`.
    pub name: String,
    /// Makes the driver; exits 77 without a toolchain.
    pub build: String,
    /// Starts the driver.
    pub run: String,
    /// Where both run.
    pub directory: PathBuf,
}

/// How a build ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The driver can be started.
    Yes,
    /// The build failed; its last words.
    Failed(String),
    /// There is no toolchain for this language here; what the build said about it.
    NoToolchain(String),
}

/// Reads the table; `root` is the repository.
///
/// # Errors
/// Names the line that is not `language, build command, run command`.
pub fn parse(text: &str, root: &Path) -> Result<Vec<Language>, String> {
    let mut languages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split('\t').collect();
        let [name, build, run] = words[..] else {
            return Err(format!(
                "drivers.txt line {}: write language, build command and run command with tabs \
                 between",
                index + 1
            ));
        };
        languages.push(Language {
            name: name.to_owned(),
            build: build.to_owned(),
            run: run.to_owned(),
            directory: directory(root, name),
        });
    }
    Ok(languages)
}

/// The Rust client is part of the workspace; the others live under `clients/`. A language with two
/// clients in one place has a second driver, with a dash in its name.
pub fn directory(root: &Path, language: &str) -> PathBuf {
    let place = language.split_once('-').map_or(language, |(place, _)| place);
    if place == "rust" { root.to_owned() } else { root.join("clients").join(place) }
}

impl Language {
    /// Builds the driver.
    pub async fn build(&self) -> Built {
        match shell::run(&self.build, &self.directory, &[], BUILD_LIMIT).await {
            Err(error) => Built::Failed(error),
            Ok(ended) => match ended.status.code() {
                Some(0) => Built::Yes,
                Some(STATUS_NO_TOOLCHAIN) => Built::NoToolchain(ended.said),
                _ => Built::Failed(format!("{}: {}", ended.status, ended.said)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_their_places() {
        let languages = parse("# c\nrust\tb\tr\n\ngo\tb 2\tr 2\ngo-x\tb\tr\n", Path::new("/repo"))
            .expect("good");
        assert_eq!(languages.len(), 3);
        assert_eq!(languages[0].directory, Path::new("/repo"));
        assert_eq!(languages[1].directory, Path::new("/repo/clients/go"));
        assert_eq!(languages[1].build, "b 2");
        assert_eq!(languages[2].directory, Path::new("/repo/clients/go"));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = parse("rust\tb\tr\ngo b r\n", Path::new("/repo")).expect_err("bad");
        assert!(error.contains("line 2"), "{error}");
    }

    #[tokio::test]
    async fn builds_tell_a_missing_toolchain_from_a_failure() {
        let language = |build: &str| Language {
            name: "x".into(),
            build: build.into(),
            run: String::new(),
            directory: PathBuf::from("."),
        };
        assert_eq!(language("true").build().await, Built::Yes);
        assert_eq!(
            language("echo no gcc; exit 77").build().await,
            Built::NoToolchain("no gcc".into())
        );
        assert!(matches!(language("exit 2").build().await, Built::Failed(_)));
    }
}
