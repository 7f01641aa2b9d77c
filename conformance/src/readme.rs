//! The example programs in the clients' READMEs, run as they stand against a real server.

use crate::clock;
use crate::failure::{Check, Failure, fail};
use crate::limits::EXAMPLE_LIMIT;
use crate::registry::Language;
use crate::runner::Verdict;
use crate::scenario::Group;
use crate::server_process::ServerProcess;
use crate::shell;
use std::time::Duration;

const MARK: &str = "<!-- run: ";
const MARK_END: &str = " -->";
const FENCE: &str = "```";
/// The port that READMEs name.
const PORT: &str = ":5225";

/// A block that is a whole program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Example {
    /// Where it is written.
    file: String,
    /// What then runs it.
    command: String,
    text: String,
}

/// Runs every example of a language's README.
pub async fn judge(language: &Language) -> Vec<Verdict> {
    let path = language.directory.join("README.md");
    let examples = match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text),
        Err(error) => fail("a README", format!("{}: {error}", path.display())),
    };
    let examples = match examples {
        Ok(examples) if !examples.is_empty() => examples,
        Ok(_) => {
            let check = fail("a runnable block, announced by `<!-- run: … -->`", "none");
            return vec![verdict("examples", check, Duration::ZERO)];
        }
        Err(failure) => {
            return vec![verdict("examples", Err(failure), Duration::ZERO)];
        }
    };
    let mut verdicts = Vec::new();
    for example in examples {
        let start = clock::now();
        let check = run(language, &example).await;
        verdicts.push(verdict(&example.file, check, clock::now() - start));
    }
    verdicts
}

fn verdict(name: &str, check: Check, time: Duration) -> Verdict {
    let id = format!("{}/{name}", Group::Readme);
    Verdict { id, group: Group::Readme, check, transcript: Vec::new(), time }
}

async fn run(language: &Language, example: &Example) -> Check {
    let trouble = |error| Failure { expected: "a running server".into(), seen: error };
    let server = ServerProcess::start(&[]).await.map_err(trouble)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join(&example.file);
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(&file, example.text.replace(PORT, &format!(":{}", server.address.port())))?;
    let client = std::path::absolute(&language.directory)?;
    let variables = [("CLIENT", &*client.to_string_lossy())];
    let ended = shell::run(&example.command, directory.path(), &variables, EXAMPLE_LIMIT).await;
    let check = match ended {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => fail("exit status 0", format!("{}: {}", ended.status, ended.said)),
        Err(error) => fail("exit status 0", error),
    };
    server.stop().await.map_err(trouble)?;
    check
}

/// The runnable blocks of a README.
fn parse(text: &str) -> Check<Vec<Example>> {
    let mut examples = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix(MARK) else {
            continue;
        };
        let mark = mark.strip_suffix(MARK_END).and_then(|mark| mark.split_once(": "));
        let Some((file, command)) = mark else {
            return fail("<!-- run: FILE: COMMAND -->", line);
        };
        let next = lines.by_ref().find(|line| !line.is_empty());
        if !next.is_some_and(|next| next.starts_with(FENCE)) {
            return fail("a fenced block after its mark", line);
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with(FENCE)).collect();
        let text = block.join("\n") + "\n";
        examples.push(Example { file: file.to_owned(), command: command.to_owned(), text });
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_block_is_an_example() {
        let text =
            "# x\n```sh\nnot me\n```\n<!-- run: a.py: python3 a.py -->\n\n```python\nb\nc\n```\n";
        let example =
            Example { file: "a.py".into(), command: "python3 a.py".into(), text: "b\nc\n".into() };
        assert_eq!(parse(text), Ok(vec![example]));
    }

    #[test]
    fn a_mark_without_its_block_is_named() {
        assert!(parse("<!-- run: a.py -->\n```\n```\n").is_err());
        assert!(parse("<!-- run: a.py: b -->\n\ntext\n```\n```\n").is_err());
    }
}
