//! Messages that `clients/BEHAVIOUR.md` fixes are the same in the sources of every client.

use std::fs;
use std::path::{Path, PathBuf};

/// Where each client keeps its messages; C++ shows those of the C library.
const SOURCES: [&str; 8] = [
    "clients/c/src",
    "clients/csharp/src",
    "clients/go",
    "clients/java/client/src/main",
    "clients/javascript/src",
    "clients/python/src/ticketing",
    "clients/ruby/lib",
    "crates/client/src",
];
const EXTENSIONS: [&str; 8] = ["c", "cs", "go", "java", "ts", "py", "rb", "rs"];

/// The rows below the table's head.
fn messages(behaviour: &str) -> Vec<&str> {
    let (_, table) = behaviour.split_once("| error | message |\n|---|---|\n").expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').nth(2).expect("two cells").trim()).collect()
}

/// All sources below, without what breaks a string over lines: quotes, operators, space.
fn text(directory: &Path) -> String {
    let mut text = String::new();
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            text += &self::text(&path);
        } else if path.extension().is_some_and(|ext| EXTENSIONS.iter().any(|one| ext == *one)) {
            text += &squeezed(&fs::read_to_string(&path).expect("text"));
        }
    }
    text
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace() && !"\"+\\".contains(*char)).collect()
}

#[test]
fn everybody_reads_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let behaviour = fs::read_to_string(root.join("clients/BEHAVIOUR.md")).expect("the page");
    let messages = messages(&behaviour);
    assert_eq!(messages.len(), 4);
    for source in SOURCES {
        let text = text(&root.join(source));
        for message in &messages {
            assert!(text.contains(&squeezed(message)), "{source} does not say: {message}");
        }
    }
}
