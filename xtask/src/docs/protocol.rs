//! Whether the protocol page and the codec say the same: opcodes and their lengths, in both
//! directions, and the sections that vectors cite.

use crate::root::repository;
use crate::tidy::documents::anchors;
use std::collections::{BTreeMap, BTreeSet};
use ticketing_wire_codec::limits::HEAD_SIZE_BYTES;
use ticketing_wire_codec::{ErrorCode, Reply, RequestId, RequestKind, Token, decode_request};

/// Opcode to the text in the column *body length*.
type Lengths = BTreeMap<char, String>;

/// Compares the page with the code.
pub(super) fn check(page: &str) -> Result<(), String> {
    let mut complaints = Vec::new();
    for (section, actual) in [("Request frames", requests()), ("Reply frames", replies())] {
        let written = written(page, section);
        if written != actual {
            complaints.push(format!("{section}: written {written:?}, in the code {actual:?}"));
        }
    }
    complaints.extend(uncited(page));
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Tries every length on the decoder itself: what it accepts is the range.
fn requests() -> Lengths {
    RequestKind::ALL
        .into_iter()
        .map(|kind| {
            let mut accepted = (0..=u16::MAX).filter(|length| {
                let [high, low] = length.to_be_bytes();
                decode_request(&[kind.opcode(), high, low]).is_ok()
            });
            let least = accepted.next().expect("some length is accepted");
            let most = accepted.next_back().expect("some length is accepted");
            (char::from(kind.opcode()), format!("{least}–{most}"))
        })
        .collect()
}

/// One reply of each kind, encoded.
fn replies() -> Lengths {
    let request_id = RequestId::new(1).expect("not 0");
    let token = Token::new(1).expect("not 0");
    [
        Reply::Granted { request_id, token },
        Reply::GrantedSet { request_id, token },
        Reply::Released { request_id },
        Reply::ReleasedSet { request_id },
        Reply::NotHeld { request_id },
        Reply::TimedOut { request_id },
        Reply::Busy { request_id },
        Reply::Moved { request_id, leader: None },
        Reply::Indeterminate { request_id },
        Reply::Refused { request_id, code: ErrorCode::BadKey },
        Reply::Leader { leader: None },
    ]
    .into_iter()
    .map(|reply| {
        let frame = reply.encode();
        let bytes = frame.as_bytes();
        (char::from(bytes[0]), (bytes.len() - HEAD_SIZE_BYTES).to_string())
    })
    .collect()
}

/// The rows of a section's opcode table: "| `A` 41 | meaning | body | length | ...".
fn written(page: &str, section: &str) -> Lengths {
    let heading = format!("## {section}\n");
    let text = page.split_once(&heading).map_or("", |(_, rest)| rest);
    let text = text.split("\n## ").next().unwrap_or_default();
    let mut lengths = Lengths::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(name) = cells.get(1).and_then(|cell| cell.strip_prefix('`')) else { continue };
        let mut letters = name.chars();
        let (Some(opcode), Some('`')) = (letters.next(), letters.next()) else { continue };
        let length = cells.get(4).copied().unwrap_or_default();
        let hex = format!("{:02X}", u32::from(opcode));
        let is_right = letters.as_str().trim() == hex;
        lengths.insert(opcode, if is_right { length } else { "wrong hex" }.to_owned());
    }
    lengths
}

/// Sections that vectors cite and the page does not have.
fn uncited(page: &str) -> Vec<String> {
    let sections: BTreeSet<String> = anchors(page).collect();
    let mut complaints = BTreeSet::new();
    let files = std::fs::read_dir(repository().join("vectors"));
    for path in files.into_iter().flatten().flatten().map(|entry| entry.path()) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for (_, rest) in
            text.match_indices("\"spec\":\"").map(|(at, key)| text.split_at(at + key.len()))
        {
            let anchor = rest.split('"').next().unwrap_or_default();
            if !sections.contains(anchor) {
                complaints.insert(format!("vectors cite #{anchor}, which is no heading"));
            }
        }
    }
    complaints.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_length_opcode_or_hex_is_seen() {
        let page =
            "## Request frames\n| `A` 41 | a | b | 10–138 |\n| `R` 53 | a | b | 16 |\n## X\n";
        let written = written(page, "Request frames");
        assert_eq!(written[&'A'], "10–138");
        assert_eq!(written[&'R'], "wrong hex");
        assert_eq!(requests()[&'A'], "10–138");
        assert!(check(page).is_err());
    }
}
