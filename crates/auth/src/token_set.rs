//! The tokens a server accepts at one time, so that a token can be rotated.

use crate::error::{TokenError, TokenFault};
use crate::limits::{TOKEN_COUNT_MAX, TOKEN_FILE_SIZE_BYTES_MAX};
use crate::token::{ClientToken, PROOF_SIZE_BYTES};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// One or more accepted tokens, the newest first; or none, for a server without authentication.
#[derive(Clone, Debug)]
pub struct TokenSet {
    newest: ClientToken,
    older: Vec<ClientToken>,
    is_required: bool,
}

impl TokenSet {
    /// No authentication: only the empty token is accepted. Only for loopback addresses.
    pub fn none() -> Self {
        Self { newest: ClientToken::none(), older: Vec::new(), is_required: false }
    }

    /// One token from a variable or an argument; `name` is what error messages call it.
    ///
    /// # Errors
    /// A token outside the size bounds, or with a line break inside.
    pub fn from_value(name: &str, value: &str) -> Result<Self, TokenError> {
        parse_token(value.as_bytes())
            .map(|newest| Self { newest, older: Vec::new(), is_required: true })
            .map_err(|fault| TokenError::Value { name: name.to_owned(), fault })
    }

    /// The tokens of a file, one per line, the newest first. One newline at the very end does not
    /// count.
    ///
    /// # Errors
    /// A file that cannot be read, is empty or too large, or a line that is no token.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        read_lines(path).and_then(|content| Self::parse_file(path, &content))
    }

    fn parse_file(path: &Path, content: &[u8]) -> Result<Self, TokenError> {
        let mut tokens = parse_lines(path, content, parse_token)?;
        let newest = tokens.remove(0);
        Ok(Self { newest, older: tokens, is_required: true })
    }

    /// The token that a client which reads the same file proves.
    pub fn newest(&self) -> &ClientToken {
        &self.newest
    }

    /// Whether clients must know a token; false means no authentication.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Whether the proof was made with any accepted token. Tries them all, so that the time says
    /// nothing about which one.
    pub fn verify(&self, message: &[u8], proof: &[u8; PROOF_SIZE_BYTES]) -> bool {
        let mut is_accepted = self.newest.accepts(message, proof);
        for token in &self.older {
            is_accepted |= token.accepts(message, proof);
        }
        is_accepted
    }
}

fn parse_token(bytes: &[u8]) -> Result<ClientToken, TokenFault> {
    check_line_breaks(bytes).and_then(|()| ClientToken::new(bytes))
}

pub(crate) fn check_line_breaks(bytes: &[u8]) -> Result<(), TokenFault> {
    if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(TokenFault::LineBreak);
    }
    Ok(())
}

/// A token file's content, bounded.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<u8>, TokenError> {
    read_bounded(path).map_err(|error| TokenError::FileUnreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// The tokens of a file; at least one.
pub(crate) fn parse_lines<T>(
    path: &Path,
    content: &[u8],
    parse: impl Fn(&[u8]) -> Result<T, TokenFault>,
) -> Result<Vec<T>, TokenError> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    if content.is_empty() {
        return Err(TokenError::FileEmpty { path: path.to_owned() });
    }
    let line_count = content.split(|byte| *byte == b'\n').count();
    if content.len() > TOKEN_FILE_SIZE_BYTES_MAX || line_count > TOKEN_COUNT_MAX {
        return Err(TokenError::FileTooLarge { path: path.to_owned() });
    }
    let lines = content.split(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(index, line)| {
            parse(line).map_err(|fault| TokenError::FileLine {
                path: path.to_owned(),
                line: index + 1,
                fault,
            })
        })
        .collect()
}

/// Reads one byte past the largest valid file, so that a larger one (or an endless device) shows.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let size_max = TOKEN_FILE_SIZE_BYTES_MAX as u64 + 1;
    File::open(path)?.take(size_max).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "first-token-of-the-file";
    const SECOND: &str = "second-token-of-the-file";

    fn parse(content: impl AsRef<[u8]>) -> Result<TokenSet, TokenError> {
        TokenSet::parse_file(Path::new("tokens"), content.as_ref())
    }

    fn token(text: &str) -> ClientToken {
        ClientToken::new(text.as_bytes()).expect("a valid token")
    }

    #[test]
    fn every_listed_token_is_accepted_and_the_first_is_the_newest() {
        let set = parse(format!("{FIRST}\n{SECOND}\n")).expect("two tokens");
        assert!(set.is_required());
        assert!(set.verify(b"m", &token(FIRST).prove(b"m")));
        assert!(set.verify(b"m", &token(SECOND).prove(b"m")));
        assert_eq!(set.newest().prove(b"m"), token(FIRST).prove(b"m"));
    }

    #[test]
    fn other_tokens_messages_and_proofs_are_refused() {
        let set = parse(FIRST).expect("one token");
        let mut proof = token(FIRST).prove(b"m");
        assert!(set.verify(b"m", &proof));
        assert!(!set.verify(b"n", &proof));
        assert!(!set.verify(b"m", &token(SECOND).prove(b"m")));
        assert!(!set.verify(b"m", &ClientToken::none().prove(b"m")));
        proof[31] ^= 1;
        assert!(!set.verify(b"m", &proof));
    }

    #[test]
    fn without_authentication_only_the_empty_token_is_accepted() {
        let set = TokenSet::none();
        assert!(!set.is_required());
        assert!(set.verify(b"m", &ClientToken::none().prove(b"m")));
        assert!(!set.verify(b"m", &token(FIRST).prove(b"m")));
    }

    #[test]
    fn exactly_one_final_newline_is_ignored() {
        let bare = parse(FIRST).expect("no newline").newest().prove(b"m");
        let ended = parse(format!("{FIRST}\n")).expect("one newline").newest().prove(b"m");
        assert_eq!(bare, ended);
        let error = parse(format!("{FIRST}\n\n")).expect_err("an empty second line");
        assert_eq!(error.to_string(), "token file tokens: line 2 is empty; remove it");
    }

    #[test]
    fn bad_files_are_refused_with_file_line_and_remedy() {
        for (content, text) in [
            (String::new(), "token file tokens is empty; write one token per line"),
            ("\n".into(), "token file tokens is empty; write one token per line"),
            (format!("\n{FIRST}"), "token file tokens: line 1 is empty; remove it"),
            (
                format!("{FIRST}\nshort\n"),
                "token file tokens: line 2: the token has 5 bytes, fewer than 16; use a longer \
                 one, such as 32 random bytes in hex",
            ),
            (
                format!("{FIRST}\r\n"),
                "token file tokens: line 1: the token contains a line break (LF or CR); write \
                 one token without line breaks; end file lines with LF only",
            ),
            (
                format!("{FIRST}\n").repeat(TOKEN_COUNT_MAX + 1),
                "token file tokens is too large; it may list 16 tokens of up to 4096 bytes, one \
                 per line",
            ),
        ] {
            assert_eq!(parse(&content).expect_err("refused").to_string(), text, "{content:?}");
        }
        assert!(parse(format!("{FIRST}\n").repeat(TOKEN_COUNT_MAX)).is_ok());
    }

    #[test]
    fn values_are_one_token_and_errors_name_the_variable() {
        assert!(TokenSet::from_value("TICKETING_TOKEN", FIRST).is_ok());
        let error = |value: &str| TokenSet::from_value("TICKETING_TOKEN", value).expect_err("bad");
        assert_eq!(
            error("").to_string(),
            "TICKETING_TOKEN: the token is empty; give a token, or unset it to run without one \
             on loopback"
        );
        assert_eq!(
            error(&format!("{FIRST}\n")),
            TokenError::Value { name: "TICKETING_TOKEN".into(), fault: TokenFault::LineBreak }
        );
    }

    #[test]
    fn files_are_read_to_their_bound_and_no_further() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        std::fs::write(&path, format!("{FIRST}\n{SECOND}\n")).expect("written");
        assert!(TokenSet::from_file(&path).is_ok());

        let longest = format!("{}\n", "x".repeat(crate::TOKEN_SIZE_BYTES_MAX));
        std::fs::write(&path, longest.repeat(TOKEN_COUNT_MAX)).expect("written");
        assert!(TokenSet::from_file(&path).is_ok());
        std::fs::write(&path, vec![b'x'; TOKEN_FILE_SIZE_BYTES_MAX + 9]).expect("written");
        let error = TokenSet::from_file(&path).expect_err("too large");
        assert_eq!(error, TokenError::FileTooLarge { path: path.clone() });

        std::fs::remove_file(&path).expect("removed");
        let error = TokenSet::from_file(&path).expect_err("missing").to_string();
        assert!(error.contains("cannot be read"), "{error}");
        assert!(error.contains("check the path and its permissions"), "{error}");
    }
}
