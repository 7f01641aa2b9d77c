//! `cargo xtask docs`: the parts of the handbook that the code already knows, and whether the rest
//! of the protocol page still says what the code does.

mod libraries;
mod protocol;
mod settings;
mod tables;

use crate::TaskResult;
use crate::root::repository;
use std::fs;

/// The law, from the root.
const PROTOCOL_PAGE: &str = "docs/src/protocol-client.md";
const DEPLOYMENT_PAGE: &str = "docs/src/deployment.md";
const LIBRARIES_PAGE: &str = "docs/src/libraries.md";

/// Arguments of `docs`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a page differs from what would be written.
    #[arg(long)]
    pub(crate) check: bool,
}

/// A generated part of a page, between `<!-- generated: NAME -->` and `<!-- end -->`.
struct Block {
    page: &'static str,
    name: &'static str,
    content: fn() -> String,
}

const BLOCKS: &[Block] = &[
    Block { page: PROTOCOL_PAGE, name: "error-codes", content: tables::error_codes },
    Block { page: PROTOCOL_PAGE, name: "limits", content: tables::limits },
    Block { page: LIBRARIES_PAGE, name: "examples", content: libraries::sections },
    Block { page: DEPLOYMENT_PAGE, name: "settings", content: settings::table },
    Block { page: DEPLOYMENT_PAGE, name: "settings-data", content: settings::data },
    Block { page: "README.md", name: "settings", content: settings::single_table },
];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> TaskResult {
    for block in BLOCKS {
        let path = repository().join(block.page);
        let page = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", block.page))?;
        let filled = fill(&page, block)?;
        if filled == page {
            continue;
        }
        if arguments.check {
            let (page, name) = (block.page, block.name);
            return Err(format!("{page}: part {name} is out of date; run `cargo xtask docs`"));
        }
        fs::write(&path, filled).map_err(|e| format!("{}: {e}", block.page))?;
    }
    let page = repository().join(PROTOCOL_PAGE);
    let page = fs::read_to_string(page).map_err(|e| format!("{PROTOCOL_PAGE}: {e}"))?;
    protocol::check(&page).map_err(|complaints| format!("{PROTOCOL_PAGE}:\n{complaints}"))?;
    println!("docs: {} generated parts; the protocol page agrees with the code", BLOCKS.len());
    Ok(())
}

/// The page with that part renewed.
fn fill(page: &str, block: &Block) -> Result<String, String> {
    let start = format!("<!-- generated: {} -->\n", block.name);
    let missing = || format!("{}: the markers of part {} are missing", block.page, block.name);
    let (before, rest) = page.split_once(&start).ok_or_else(missing)?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
    Ok(format!("{before}{start}{}<!-- end -->{after}", (block.content)()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_what_the_code_says() {
        run(&Arguments { check: true }).unwrap();
    }

    #[test]
    fn a_part_is_renewed_and_the_rest_kept() {
        let block = Block { page: "p", name: "n", content: || "new\n".into() };
        let page = "a\n<!-- generated: n -->\nold\n<!-- end -->\nb\n";
        let filled = "a\n<!-- generated: n -->\nnew\n<!-- end -->\nb\n";
        assert_eq!(fill(page, &block).as_deref(), Ok(filled));
        assert!(fill("a\n", &block).is_err());
    }
}
