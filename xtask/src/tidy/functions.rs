//! A function fits one screen. Old long ones are listed with their length and may only shrink.

use super::{Source, at};

/// Lines of a function, its signature included.
const FUNCTION_LINE_COUNT_MAX: usize = 70;

/// Functions above the bound: path, name, and the length they may not exceed.
const LONG: &[(&str, &str, usize)] = &[];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        for function in functions(&source.text) {
            let listed = LONG
                .iter()
                .find(|(path, name, _)| *path == source.path && *name == function.name)
                .map_or(FUNCTION_LINE_COUNT_MAX, |(_, _, line_count)| *line_count);
            if function.line_count > listed {
                let complaint = format!(
                    "`{}` has {} lines, more than {listed}; move straight-line parts out",
                    function.name, function.line_count
                );
                complaints.push(at(source, function.index, &complaint));
            }
        }
    }
    complaints
}

struct Function<'a> {
    name: &'a str,
    index: usize,
    line_count: usize,
}

/// Finds functions by their indentation, which rustfmt guarantees.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = lines[index..].iter().position(|line| {
            line.strip_prefix(indent).is_some_and(|rest| rest == "}" || rest.ends_with(";"))
                && !line[indent.len()..].starts_with(' ')
        });
        let one_line = line.ends_with('}') || line.ends_with(';');
        let line_count = if one_line { 1 } else { end.map_or(1, |end| end + 1) };
        found.push(Function { name, index, line_count });
    }
    found
}

/// The name after `fn`, when the line begins a function.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(named) = rest.strip_prefix("fn ") {
            let end = named.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(&named[..end]);
        }
        let word_end = rest.find(' ')?;
        let word = &rest[..word_end];
        let is_modifier = matches!(word, "async" | "const" | "unsafe" | "extern" | "\"C\"")
            || word.starts_with("pub");
        if !is_modifier {
            return None;
        }
        rest = &rest[word_end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_lengths() {
        let text = [
            "impl A {",
            "    pub(crate) const fn long(",
            "        a: u8,",
            "    ) {",
            "        a;",
            "    }",
            "",
            "    fn short() {}",
            "}",
            "async fn outer() {",
            "    inner(|| {",
            "    });",
            "}",
        ]
        .join("\n");
        let found: Vec<(String, usize)> =
            functions(&text).iter().map(|f| (f.name.to_owned(), f.line_count)).collect();
        assert_eq!(found, [("long".into(), 5), ("short".into(), 1), ("outer".into(), 4)]);
    }

    #[test]
    fn too_long_is_seen() {
        let text = format!("fn long() {{\n{}}}\n", "    a();\n".repeat(69));
        assert_eq!(check(&[Source { path: "a.rs".into(), text }]).len(), 1);
        let text = format!("fn long() {{\n{}}}\n", "    a();\n".repeat(68));
        assert_eq!(check(&[Source { path: "a.rs".into(), text }]).len(), 0);
    }
}
